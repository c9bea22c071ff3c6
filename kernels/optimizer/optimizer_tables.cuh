// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "optimizer/optimizer.hpp"
#include "optimizer/optimizer_math.hpp"
#include "optimizer/optimizer_rows.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

/// The kernels of update_rows(), for one way of rounding: see optimizer/row_rounding.cuh.
namespace msstream::ops::kernels {

/// The members of a RowUpdate that kernels use, in as few bytes as possible, because the tables of
/// a launch are parameters of the kernel.
template <class Rounding>
struct MovedRows {
  void* table;
  GroupNumbers numbers;
  bool is_part;
  bool quads;  ///< whether four neighbouring elements of a row can be accessed at once
  typename Rounding::OfTable rounding;
  std::int64_t width;
  std::int64_t const* row_ids;
  std::int64_t const* row_count;
  std::int64_t first_row;
  float const* gradients;
  std::int64_t stride;
  float* state0;
  float* state1;

  MovedRows() = default;
  MovedRows(RowUpdate const& update, bool moves_quads)
      : table(update.table),
        numbers(update.numbers),
        is_part(update.is_part),
        quads(moves_quads),
        rounding(update.rounding),
        width(update.width),
        row_ids(update.row_ids),
        row_count(update.row_count),
        first_row(update.first_row),
        gradients(update.gradients),
        stride(update.is_part ? update.stride : update.width),
        state0(update.state0),
        state1(update.state1) {}

  /// Returns the index of the table's first row in row_ids and in the gradients.
  [[nodiscard]] __device__ std::int64_t begin() const { return is_part ? row_count[-1] : 0; }
  [[nodiscard]] __device__ std::int64_t row(std::int64_t u) const { return row_ids[u] - first_row; }
  [[nodiscard]] __device__ float const* gradient(std::int64_t u) const {
    return gradients + u * stride;
  }
};

/// The number of rows that a group of lanes has in flight, so that it waits once for several rows
/// that are anywhere in the table: as many as keep all threads resident.
template <OptimizerKind Kind>
inline constexpr int kRowsInFlight = has_state1<Kind> && !has_row_state1<Kind> ? 2 : 4;

/// The rows of a table that a group of lanes updates together: those from `first` on that are
/// `distance` apart, as far as they have a gradient.
template <OptimizerKind Kind>
struct RowsTogether {
  static constexpr int kCount = kRowsInFlight<Kind>;
  std::int64_t rows[kCount];  ///< of the table; negative for one that does not exist

  template <class Rounding>
  __device__ RowsTogether(MovedRows<Rounding> const& update,
                          std::int64_t first,
                          std::int64_t distance,
                          std::int64_t end) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      auto const u = first + k * distance;
      rows[k] = u < end ? update.row(u) : -1;
    }
  }
};

/// Updates the rows that have a gradient with `threads` threads, by a rule that treats each weight
/// alone. A group of lanes updates several rows at once, each lane four columns of each.
template <OptimizerKind Kind, class Weight, bool IsWhole, class Rounding>
__device__ __forceinline__ void move_rows(MovedRows<Rounding> const& update,
                                          StepRule const& step_rule,
                                          Rounding const& rounding,
                                          std::int64_t thread,
                                          std::int64_t threads) {
  using Row = RowInMotion<Kind, Weight, IsWhole>;
  constexpr int kCount = kRowsInFlight<Kind>;
  RowLanes const shape(update.width, 4);
  DeviceTable<Weight> const table{
      static_cast<Weight*>(update.table), update.state0, update.state1, update.width};
  auto const groups = threads >> shape.log2_lanes;
  auto const end = *update.row_count;
  for (auto u = update.begin() + (thread >> shape.log2_lanes); u < end; u += kCount * groups) {
    RowsTogether<Kind> const together(update, u, groups, end);
    for (std::int64_t column = 4 * shape.lane(); column < update.width;
         column += 4 * shape.lanes()) {
      Row moving[kCount];
      Pack<float, 4> gradients[kCount] = {};
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (together.rows[k] >= 0) {
          moving[k].load(table, together.rows[k], column);
          load_four<IsWhole, true>(
              update.gradient(u + k * groups), column, update.width, gradients[k]);
        }
      }
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (together.rows[k] >= 0) {
          moving[k].move_columns(step_rule,
                                 unpacked(gradients[k]),
                                 0.0F,
                                 update.width,
                                 rounding.at(together.rows[k], column));
          moving[k].store(table, together.rows[k], column);
        }
      }
    }
  }
}

/// The columns of one row that a lane works on, one after the other: four at first_column, and
/// again at every further `step`.
template <class Function>
__device__ __forceinline__ void for_columns(std::int64_t first_column,
                                            std::int64_t width,
                                            std::int64_t step,
                                            Function const& function) {
  for (auto column = first_column; column < width; column += step) {
    function(column);
  }
}

/// Updates the rows of a table by a rule that needs whole rows, each row by a group of lanes that
/// holds it at once.
template <OptimizerKind Kind, class Weight, bool IsWhole, class Rounding>
__device__ __forceinline__ void move_held_rows(MovedRows<Rounding> const& update,
                                               StepRule const& step_rule,
                                               Rounding const& rounding,
                                               RowLanes const& shape,
                                               std::int64_t thread,
                                               std::int64_t threads) {
  using Row = RowInMotion<Kind, Weight, IsWhole>;
  constexpr int kCount = kRowsInFlight<Kind>;
  DeviceTable<Weight> const table{
      static_cast<Weight*>(update.table), update.state0, update.state1, update.width};
  std::int64_t const column = 4 * shape.lane();
  auto const groups = threads >> shape.log2_lanes;
  auto const end = *update.row_count;
  for (auto u = update.begin() + (thread >> shape.log2_lanes); u < end; u += kCount * groups) {
    RowsTogether<Kind> const together(update, u, groups, end);
    Row moving[kCount];
    Pack<float, 4> gradients[kCount] = {};
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (together.rows[k] >= 0) {
        moving[k].load(table, together.rows[k], column);
        load_four<IsWhole, true>(
            update.gradient(u + k * groups), column, update.width, gradients[k]);
      }
    }
    float squares[kCount] = {};
    if constexpr (has_row_state<Kind>) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        squares[k] = moving[k].squares_of(step_rule, unpacked(gradients[k]));
      }
      Row::sum_over_lanes(squares, shape);
    }
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (together.rows[k] >= 0) {
        if constexpr (has_trust_ratio<Kind>) {
          moving[k].move_columns(step_rule,
                                 unpacked(gradients[k]),
                                 shape,
                                 column,
                                 rounding.at(together.rows[k], column));
        } else {
          moving[k].move_columns(step_rule,
                                 unpacked(gradients[k]),
                                 squares[k],
                                 update.width,
                                 rounding.at(together.rows[k], column));
        }
        moving[k].store(table, together.rows[k], column);
      }
    }
  }
}

/// Updates the rows of a table by a rule that needs whole rows, each row by a group of lanes in two
/// passes: the first adds the squares, the second updates the weights. A row that the lanes hold at
/// once is read only once.
template <OptimizerKind Kind, class Weight, bool IsWhole, class Rounding>
__device__ __forceinline__ void move_whole_rows(MovedRows<Rounding> const& update,
                                                StepRule const& step_rule,
                                                Rounding const& rounding,
                                                std::int64_t thread,
                                                std::int64_t threads) {
  using Row = RowInMotion<Kind, Weight, IsWhole>;
  RowLanes const shape(update.width, 4);
  DeviceTable<Weight> const table{
      static_cast<Weight*>(update.table), update.state0, update.state1, update.width};
  std::int64_t const step = 4 * shape.lanes();
  std::int64_t const first_column = 4 * shape.lane();
  if (update.width <= step) {
    move_held_rows<Kind, Weight, IsWhole>(update, step_rule, rounding, shape, thread, threads);
    return;
  }
  auto const end = *update.row_count;
  for (auto u = update.begin() + (thread >> shape.log2_lanes); u < end;
       u += threads >> shape.log2_lanes) {
    auto const row = update.row(u);
    auto const* const gradients = update.gradient(u);
    auto const gradient_at = [&](std::int64_t column) {
      Pack<float, 4> four{};
      load_four<IsWhole>(gradients, column, update.width, four);
      return unpacked(four);
    };
    if constexpr (has_trust_ratio<Kind>) {
      float sums[2] = {0.0F, 0.0F};
      for_columns(first_column, update.width, step, [&](std::int64_t column) {
        Row moving;
        moving.load(table, row, column);
        moving.move_moments_of(step_rule, gradient_at(column));
        moving.add_norms(step_rule, column, update.width, sums);
        moving.store_state(table, row, column);
      });
      Row::sum_over_lanes(sums, shape);
      float const ratio = trust_ratio(sums[0], sums[1]);
      for_columns(first_column, update.width, step, [&](std::int64_t column) {
        Row moving;
        moving.load(table, row, column);
        moving.move_by_ratio(step_rule, ratio, rounding.at(row, column));
        moving.store(table, row, column);
      });
    } else {
      float squares = 0.0F;
      for_columns(first_column, update.width, step, [&](std::int64_t column) {
        Pack<Weight, 4> weights{};
        if (step_rule.coupled_decay != 0.0F) {
          load_four<IsWhole>(table.weights + row * table.width, column, table.width, weights);
        }
        auto const gradient = gradient_at(column);
        for (int c = 0; c < 4; ++c) {
          squares = add_square(squares, shaped(step_rule, gradient.at[c], widen(weights.lanes[c])));
        }
      });
      float row_state = (has_row_state0<Kind> ? table.state0 : table.state1)[row];
      float const of_row = move_row_state<Kind>(
          step_rule, Row::sum_over_lanes(squares, shape), update.width, row_state);
      for_columns(first_column, update.width, step, [&](std::int64_t column) {
        Row moving;
        moving.load(table, row, column);
        moving.move_columns_by(step_rule, gradient_at(column), of_row, rounding.at(row, column));
        moving.row_state = row_state;
        moving.store(table, row, column);
      });
    }
  }
}

template <OptimizerKind Kind, class Weight, int Lanes, class Rounding>
__device__ __forceinline__ void move_any_rows(MovedRows<Rounding> const& update,
                                              StepRule const& step_rule,
                                              Rounding const& rounding,
                                              std::int64_t thread,
                                              std::int64_t threads) {
  if constexpr (needs_whole_rows<Kind>) {
    move_whole_rows<Kind, Weight, Lanes == 4>(update, step_rule, rounding, thread, threads);
  } else {
    move_rows<Kind, Weight, Lanes == 4>(update, step_rule, rounding, thread, threads);
  }
}

template <OptimizerKind Kind, class Weight, int Lanes, class Rounding>
__global__ void __launch_bounds__(kBlockThreads)
    update_rows_kernel(__grid_constant__ MovedRows<Rounding> const update,
                       OptimizerRule const rule,
                       StepState const* step) {
  if (is_skipped(step)) {
    return;
  }
  move_any_rows<Kind, Weight, Lanes>(update,
                                     rule_of_step<Kind>(rule, update.numbers, step),
                                     Rounding(update.rounding, step),
                                     grid_thread(),
                                     grid_stride());
}

template <class Rounding>
struct RowsPiece {
  MovedRows<Rounding> update;
  unsigned first_block;
  unsigned blocks;
};
/// The number of tables of a launch: as many as fit into the parameters of a kernel.
template <class Rounding>
inline constexpr int kMostTables = std::is_empty_v<typename Rounding::OfTable> ? 40 : 32;
template <class Rounding>
struct RowsTable : PieceTable<RowsPiece<Rounding>, kMostTables<Rounding>> {};

template <OptimizerKind Kind, class Weight, class Rounding>
__global__ void __launch_bounds__(kBlockThreads)
    update_tables_kernel(__grid_constant__ RowsTable<Rounding> const table,
                         OptimizerRule const rule,
                         StepState const* step) {
  static_assert(sizeof(table) + sizeof(rule) + sizeof(step) <= 4096,
                "what every device takes as parameters of a kernel");
  if (is_skipped(step)) {
    return;
  }
  auto const& piece = piece_of_block(table.pieces, table.count);
  auto const threads = static_cast<std::int64_t>(piece.blocks) * blockDim.x;
  StepRule const step_rule = rule_of_step<Kind>(rule, piece.update.numbers, step);
  Rounding const rounding(piece.update.rounding, step);
  if (piece.update.quads) {
    move_any_rows<Kind, Weight, 4>(piece.update, step_rule, rounding, piece_thread(piece), threads);
  } else {
    move_any_rows<Kind, Weight, 1>(piece.update, step_rule, rounding, piece_thread(piece), threads);
  }
}

inline bool moves_quads(OptimizerKind kind, RowUpdate const& update) {
  auto const* const state0 = kind == OptimizerKind::rowwise_adagrad ? nullptr : update.state0;
  auto const* const state1 = kind == OptimizerKind::partial_rowwise_adam ? nullptr : update.state1;
  return update.width % 4 == 0 && update.stride % 4 == 0 &&
         quads_fit(update.table, update.gradients, state0, state1);
}

// The number of blocks that fills a large device. More blocks would find no work if only few of the
// rows exist.
inline constexpr unsigned kMostBlocks = 2048;

inline unsigned row_blocks(RowUpdate const& update) {
  auto const units = update.capacity * row_lanes(update.width);
  return std::min(kMostBlocks, grid_for(units, kBlockThreads));
}

template <class Weight, class Rounding>
void update_one_table(CudaStream stream,
                      OptimizerRule const& rule,
                      StepState const* step,
                      RowUpdate const& update) {
  auto const blocks = row_blocks(update);
  MovedRows<Rounding> const moved(update, moves_quads(rule.kind, update));
  with_kind(rule.kind, [&](auto kind) {
    if (moved.quads) {
      update_rows_kernel<kind(), Weight, 4, Rounding>
          <<<blocks, kBlockThreads, 0, stream.handle>>>(moved, rule, step);
    } else {
      update_rows_kernel<kind(), Weight, 1, Rounding>
          <<<blocks, kBlockThreads, 0, stream.handle>>>(moved, rule, step);
    }
  });
  check_launch("update_rows");
}

/// Updates several tables with one launch, in which each table has its share of the blocks.
template <class Weight, class Rounding>
void update_tables(CudaStream stream,
                   OptimizerRule const& rule,
                   StepState const* step,
                   std::span<RowUpdate const> updates) {
  std::int64_t wanted = 0;
  for (auto const& update : updates) {
    wanted += row_blocks(update);
  }
  RowsTable<Rounding> table;
  for (auto const& update : updates) {
    std::int64_t const own = row_blocks(update);
    auto const blocks =
        wanted <= kMostBlocks ? own : std::max<std::int64_t>(1, own * kMostBlocks / wanted);
    MovedRows<Rounding> const moved(update, moves_quads(rule.kind, update));
    table.add({moved, 0, static_cast<unsigned>(blocks)}, blocks);
  }
  with_kind(rule.kind, [&](auto kind) {
    update_tables_kernel<kind(), Weight, Rounding>
        <<<grid_for(table.blocks, 1), kBlockThreads, 0, stream.handle>>>(table, rule, step);
  });
  check_launch("update_rows");
}

/// Updates those tables whose elements are of type Weight, and that are rounded in one way.
template <class Weight, class Rounding>
void update_tables_of_type(CudaStream stream,
                           OptimizerRule const& rule,
                           StepState const* step,
                           std::span<RowUpdate const> updates) {
  constexpr std::size_t kMost = kMostTables<Rounding>;
  RowUpdate together[kMost];
  std::size_t count = 0;
  auto const launch = [&] {
    if (count == 1) {
      update_one_table<Weight, Rounding>(stream, rule, step, together[0]);
    } else if (count > 1) {
      update_tables<Weight, Rounding>(stream, rule, step, {together, count});
    }
    count = 0;
  };
  for (auto const& update : updates) {
    bool const is_rounded_so =
        Rounding::kIsStochastic == is_stochastic(update.rounding, update.dtype);
    if (update.dtype == dtype_of<Weight> && is_rounded_so && update.capacity > 0 &&
        update.width > 0) {
      if (count == kMost) {
        launch();
      }
      together[count++] = update;
    }
  }
  launch();
}

/// Updates those tables of 16 bits that are rounded stochastically.
void update_stochastic_rows(CudaStream stream,
                            OptimizerRule const& rule,
                            StepState const* step,
                            std::span<RowUpdate const> updates);

}  // namespace msstream::ops::kernels
