// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/tables_quads.cuh"
#include "optimizer/optimizer_rows.cuh"

#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

/// The state of one table for kernels, in as few bytes as possible, because the tables of a launch
/// are parameters of the kernel.
template <class Rounding>
struct MovedTable {
  float* state0;
  float* state1;
  GroupNumbers numbers;
  bool moves;
  typename Rounding::OfTable rounding;
};

/// The tables of a lookup that one launch updates, among the tables [first, first + kMost).
template <class Rounding>
struct MovedTables {
  static constexpr int kMost = std::is_empty_v<typename Rounding::OfTable> ? 104 : 68;
  std::int32_t first = 0;
  MovedTable<Rounding> tables[kMost] = {};

  /// Returns the state of a table, or null if the launch does not update it.
  __device__ MovedTable<Rounding> const* find(std::int32_t number) const {
    auto const at = number - first;
    return at >= 0 && at < kMost && tables[at].moves ? tables + at : nullptr;
  }
};

/// The columns of a target that a lane has, `Quads` times four, and where they are.
template <OptimizerKind Kind, class Weight, int Quads>
struct HeldQuads {
  RowInMotion<Kind, Weight, true> at[Quads];
  Weight* weights = nullptr;
  float* state0 = nullptr;
  float* state1 = nullptr;

  template <class Table>
  __device__ void load(Table const& table, std::uint32_t row, LaneQuads<Quads> const& lane) {
    auto const& rows = table.rows;
    auto const width = static_cast<std::uint32_t>(rows.width);
    weights = row_at(rows.weights, row, width * sizeof(Weight)) + lane.column;
    if constexpr (has_state0<Kind> && !has_row_state0<Kind>) {
      state0 = row_at(rows.state0, row, width * sizeof(float)) + lane.column;
    }
    if constexpr (has_state1<Kind> && !has_row_state1<Kind>) {
      state1 = row_at(rows.state1, row, width * sizeof(float)) + lane.column;
    }
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
      int const further = q * lane.distance;
      at[q].load_at(weights + further, state0 + further, state1 + further, lane.has(q));
    }
    at[0].load_row_state(rows, row);
  }
  __device__ void store(LaneQuads<Quads> const& lane) const {
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
      int const further = q * lane.distance;
      at[q].store_at(weights + further, state0 + further, state1 + further, lane.has(q));
    }
  }
};

/// A sink that updates the rows of tables of one element type, and of one way of rounding, by the
/// sums of their gradients, which are stored nowhere.
template <OptimizerKind Kind, class Weight, bool IsWhole, class Rounding>
struct MoveTableRows {
  static constexpr bool kIsWhole = IsWhole;
  static constexpr bool kHasRowsOfState = has_state0<Kind> && !has_row_state0<Kind>;
  static constexpr bool kIsWide = false;
  /// Rules that add up other things than squares over a row do so in an order of their own.
  static constexpr bool kTakesQuads = IsWhole && !has_trust_ratio<Kind>;
  static constexpr int kInFlight = 4;
  /// As many as the registers of the rule's state allow. For row-wise Adagrad of 1.75 M positions
  /// of 1.17 M rows of 128 floats, one H200 took 498 µs with 4, 531 with 3 and 633 with 5.
  static constexpr int kBlocks = !kTakesQuads || has_state1<Kind> ? 2
                                 : has_state0<Kind> && !has_row_state0<Kind>
                                     ? (Rounding::kIsStochastic ? 2 : 3)
                                     : (Rounding::kIsStochastic ? 3 : 4);
  static constexpr bool kFindsTables = false;
  using Division = QuadPairs;
  MovedTables<Rounding> tables;
  OptimizerRule rule;
  StepState const* state;

  struct Table {
    DeviceTable<Weight> rows;
    StepRule rule;
    Rounding rounding;
    /// 1 / width if the width is a power of two, so that a product with it is the quotient by the
    /// width; otherwise 0.
    float over_width = 0.0F;

    __device__ bool exists() const { return rows.weights != nullptr; }
    [[nodiscard]] __device__ float mean_of(float sum, int width) const {
      return over_width != 0.0F ? __fmul_rn(sum, over_width)
                                : __fdiv_rn(sum, static_cast<float>(width));
    }
  };
  struct Ahead {
    RowInMotion<Kind, Weight, IsWhole> columns;
    __device__ void load(Table const& table, std::int64_t row, std::int64_t column) {
      columns.load(table.rows, row, column);
    }
  };
  using Held = HeldQuads<Kind, Weight, Division::kQuads>;
  __device__ bool is_skipped() const { return kernels::is_skipped(state); }
  /// Returns what a lane requests of targets ahead: a line of their weights, or their number of
  /// state, if that is the first array of state and the weights have fewer lines.
  __device__ LineAhead target_ahead(Table const& table,
                                    ColumnsAhead const& columns,
                                    int width,
                                    int number) const {
    LineAhead const line(table.rows.weights, columns, width, number);
    if (has_row_state0<Kind> && line.first == nullptr && table.exists()) {
      constexpr int kColumns = static_cast<int>(LineAhead::kBytes / sizeof(Weight));
      return {table.rows.state0, {0, 1}, 1, number - ceil_div(columns.end, kColumns)};
    }
    return line;
  }
  /// Returns what a lane requests of the rows of state, and of numbers of state, if these are the
  /// second array.
  __device__ LineAhead state_ahead(Table const& table,
                                   ColumnsAhead const& columns,
                                   int width,
                                   bool is_second,
                                   int number) const {
    if constexpr (kHasRowsOfState) {
      if (!is_second) {
        return {table.rows.state0, columns, width, number};
      }
      if constexpr (has_row_state1<Kind>) {
        return {table.rows.state1, {0, 1}, 1, number};
      }
      return {table.rows.state1, columns, width, number};
    }
    return {};
  }
  __device__ Table table(TablesGradientArgs const& args, std::int32_t number) const {
    auto const* const moved = tables.find(number);
    if (moved == nullptr) {
      return {};
    }
    auto const& table = args.tables[number];
    return {{static_cast<Weight*>(const_cast<void*>(table.table)),
             moved->state0,
             moved->state1,
             table.width},
            rule_of_step<Kind>(rule, moved->numbers, state),
            Rounding(moved->rounding, state),
            (table.width & (table.width - 1)) == 0 ? 1.0F / static_cast<float>(table.width) : 0.0F};
  }
  __device__ std::int64_t target_of(TablesGradientArgs const& args,
                                    std::int32_t number,
                                    std::int32_t rank) const {
    return __ldg(args.unique_rows + rank) - __ldg(args.first_rows + number);
  }
  __device__ float squares_of(Table const& table,
                              Ahead const& ahead,
                              Columns<kTableSumCount> const& sum) const {
    if constexpr (has_row_state<Kind>) {
      return ahead.columns.squares_of(table.rule, sum);
    } else {
      return 0.0F;
    }
  }
  template <int Count>
  __device__ void add_squares(float (&squares)[Count], RowLanes const& shape) const {
    if constexpr (has_row_state<Kind>) {
      RowInMotion<Kind, Weight, IsWhole>::sum_over_lanes(squares, shape);
    }
  }
  __device__ void finish(Table const& table,
                         Ahead& ahead,
                         RowLanes const& shape,
                         std::int64_t row,
                         std::int64_t column,
                         Columns<kTableSumCount> const& sum,
                         float squares) const {
    auto const rounding = table.rounding.at(row, column);
    if constexpr (has_trust_ratio<Kind>) {
      ahead.columns.move_columns(table.rule, sum, shape, column, rounding);
    } else {
      ahead.columns.move_columns(table.rule, sum, squares, shape.width, rounding);
    }
    ahead.columns.store(table.rows, row, column);
  }

  /// Returns the sum of the squares of a row's gradient to all of its lanes, if the rule needs it,
  /// and makes the sum of a row that ends the gradient that the rule uses. All lanes of the warp
  /// call it.
  template <class Divided, int Quads>
  __device__ float squares_of(Table const& table,
                              HeldQuads<Kind, Weight, Quads> const& held,
                              bool ends,
                              LaneQuads<Quads> const& lane,
                              QuadColumns<Quads>& sum,
                              RowLanes const& shape) const {
    if constexpr (has_row_state<Kind>) {
      if (ends && !table.rule.keeps_gradients) {
#pragma unroll
        for (int q = 0; q < Quads; ++q) {
          if (lane.has(q)) {
            sum.at[q] = held.at[q].shaped_columns(table.rule, sum.at[q]);
          }
        }
      }
      float const of_lane = Divided::squares_of_lane([&](int q, float squares) {
#pragma unroll
        for (int c = 0; c < kTableSumCount; ++c) {
          squares = add_square(squares, sum.at[q].at[c]);
        }
        return squares;
      });
      return RowInMotion<Kind, Weight, true>::sum_over_lanes_of_warp(of_lane, shape);
    } else {
      return 0.0F;
    }
  }
  /// Takes a sum that squares_of() has made the gradient that the rule uses.
  template <int Quads>
  __device__ void finish(Table const& table,
                         HeldQuads<Kind, Weight, Quads>& held,
                         std::uint32_t row,
                         LaneQuads<Quads> const& lane,
                         QuadColumns<Quads> const& sum,
                         float squares) const {
    float of_row = 0.0F;
    if constexpr (has_row_state<Kind>) {
      of_row = move_row_state_by_mean<Kind>(
          table.rule, table.mean_of(squares, lane.width), held.at[0].row_state);
      asm("" : "+f"(of_row));  // otherwise the compiler computes it for each four columns
    }
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
      if (!lane.has(q)) {
        continue;
      }
      auto const rounding = table.rounding.at(row, lane.column_of(q));
      if constexpr (has_row_state<Kind>) {
        held.at[q].move_shaped_columns(table.rule, sum.at[q], of_row, rounding);
      } else {
        held.at[q].move_columns(table.rule, sum.at[q], squares, lane.width, rounding);
      }
    }
    if (has_row_state<Kind> && lane.column == 0) {
      held.at[0].store_row_state(table.rows, row);
    }
    held.store(lane);
  }
};

}  // namespace msstream::ops::kernels
