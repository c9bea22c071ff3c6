// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/row_vector.cuh"
#include "common/workspace_layout.hpp"
#include "embedding_gradient/tables_places.hpp"
#include "optimizer/optimizer_rows.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

inline constexpr int kTableSumThreads = 256;
inline constexpr int kTableSumWarps = kTableSumThreads / 32;
inline constexpr int kTableSumCount = 4;  ///< columns per lane

// Sums over sorted positions, which are cut into parts of equal length, one group of lanes each, so
// that no frequent row delays a launch:
//
//   ranks  0 0 0 1 | 1 1 1 1 | 1 2 3 3        part 0 finishes row 0, part 2 rows 2 and 3
//   part      0    |    1    |    2           row 1: tails of 0 and 1 + head of 2
//
// A part finishes the rows whose positions it contains completely. Its sum of a row that continues
// in the next part is its tail; its sum of a row that began in an earlier part and ends in this one
// is its head. A second launch adds tails and heads.
//
// A sink receives each row of gradients that has been summed up. It maps the rank (number) of a sum
// to its target, a row of its memory:
//
//   kTakesQuads   whether rows are read four columns at a time. The sink then has Division, the
//                 division of rows among lanes, Held, the columns of a target that a lane has,
//                 forms of squares_of() and finish() that take it, and what is requested ahead
//                 (embedding_gradient/tables_quads.cuh)
//   kIsWide       whether that is a division of rows of more than 128 columns, all of which the
//                 lanes hold at once (embedding_gradient/tables_wide.cuh)
//   kInFlight     otherwise: positions whose gradients and targets are requested at once
//   kBlocks       blocks per multiprocessor, at least: as many as the registers allow
//   Table         what the sink must know of a table; it may exist for another launch only
//   Ahead         holds four columns of a target, loaded together with the gradients to add
//   squares_of()  returns the squares of a lane's columns of a sum, if the sink needs them, and
//                 add_squares() adds those of all lanes, for several rows at once
//   finish()      takes a sum; all lanes that share the row call it

struct TableSumParts {
  std::int64_t places;  ///< positions per part
  std::int64_t parts;

  /// The parts of positions in tables of up to `widest` columns. The narrower the rows, the more
  /// parts a warp has at once, and the more parts fill a large GPU.
  TableSumParts(std::int64_t all_places, std::int64_t widest)
      : places(std::clamp<std::int64_t>(
            ceil_div(all_places, wanted_parts(widest) * kStep) * kStep, kStep, 256)),
        parts(ceil_div(all_places, places)) {}

 private:
  static constexpr std::int64_t kLanes = 262'144;
  static constexpr std::int64_t kStep = 16;

  static std::int64_t wanted_parts(std::int64_t widest) {
    return std::min<std::int64_t>(kLanes / row_lanes(widest), 32'768);
  }
};

/// The partial sums of rows whose sorted positions lie in several parts; a second launch adds them.
struct TableSumBorders {
  float* tails;  ///< [parts, widest]
  float* heads;  ///< [parts, widest]
  std::size_t bytes;

  TableSumBorders(void* memory, TableSumParts const& parts, std::int64_t widest) {
    WorkspaceLayout workspace(memory);
    tails = workspace.take<float>(parts.parts * widest);
    heads = workspace.take<float>(parts.parts * widest);
    bytes = workspace.bytes();
  }
};

/// One of the parts into which sorted positions are divided. There are fewer than 2^31 positions.
struct TableSumPart {
  std::uint32_t begin;
  std::uint32_t end;
  bool has_head = false;  ///< its first row began in an earlier part
  bool has_tail = false;  ///< its last row continues in the next part

  __device__ TableSumPart(TablesGradientArgs const& args,
                          TableSumParts const& parts,
                          std::int64_t part)
      : begin(static_cast<std::uint32_t>(min(part * parts.places, args.places))),
        end(static_cast<std::uint32_t>(min((part + 1) * parts.places, args.places))) {
    auto const goes_on = [&](std::uint32_t border) {
      return args.ranks[border] >= 0 && args.ranks[border - 1] == args.ranks[border];
    };
    if (begin < end) {
      has_head = begin > 0 && goes_on(begin);
      has_tail = end < args.places && goes_on(end);
    }
  }
};

/// Loads the first `count` of up to kTableSumCount columns, and sets the other columns to zero. The
/// columns of tables of any width are adjacent, so that rows may begin at any alignment.
template <class T>
__device__ Columns<kTableSumCount> load_some_columns(T const* from, int count) {
  constexpr std::uintptr_t kBytes = kTableSumCount * sizeof(T);
  if (count >= kTableSumCount && reinterpret_cast<std::uintptr_t>(from) % kBytes == 0) {
    return load_columns<kTableSumCount>(from);
  }
  Columns<kTableSumCount> columns;
#pragma unroll
  for (int c = 0; c < kTableSumCount; ++c) {
    if (c < count) {
      columns.at[c] = load_columns<1>(from + c).at[0];
    }
  }
  return columns;
}

__device__ inline void store_some_columns(float* to,
                                          Columns<kTableSumCount> const& columns,
                                          int count) {
  if (count >= kTableSumCount && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    store_columns(to, columns);
    return;
  }
#pragma unroll
  for (int c = 0; c < kTableSumCount; ++c) {
    if (c < count) {
      to[c] = columns.at[c];
    }
  }
}

/// Sets those columns to zero whose maximum came from another position. They are not multiplied by
/// zero, because an infinite gradient would give NaN.
__device__ inline void keep_maxima(Columns<kTableSumCount>& columns,
                                   std::int32_t const* argmax,
                                   std::int32_t place,
                                   int count) {
#pragma unroll
  for (int c = 0; c < kTableSumCount; ++c) {
    columns.at[c] = c < count && __ldg(argmax + c) == place ? columns.at[c] : 0.0F;
  }
}

/// The data of a sorted position that must be known before its gradient is requested.
struct alignas(16) StagedTablePlace {
  std::int64_t element = -1;  ///< the first of its bag's gradient; -1 if nothing is added
  std::int64_t target = -1;   ///< target of the sum that ends here; -1 if none ends
  std::int32_t table = -1;    ///< -1 if the position has no row
  std::int32_t row = 0;       ///< of the output gradient
  std::int32_t place = 0;
  float factor = 1.0F;

  __device__ void set_element(std::int64_t number) { element = number; }
  __device__ void set_target(std::int64_t number) { target = number; }
  /// Reads the target from shared memory when it is needed, because keeping the targets of all
  /// positions in flight would take too many registers.
  __device__ std::int64_t target_again() const {
    return *const_cast<std::int64_t const volatile*>(&target);
  }
};

/// The next positions of a group of lanes, in shared memory. The lanes look them up together, so
/// that they wait only once for all of them.
template <class Place>
struct StagedTablePlaces {
  static constexpr int kLeast = 4;

  std::uint32_t count;  ///< a multiple of kLeast, which is a multiple of Sink::kInFlight
  Place* places;

  static __host__ __device__ int count_of(RowLanes const& shape) {
    return 2 * shape.lanes() > kLeast ? 2 * shape.lanes() : kLeast;
  }
  static std::size_t bytes_a_block(RowLanes const& shape) {
    return static_cast<std::size_t>(kTableSumThreads / shape.lanes() * count_of(shape)) *
           sizeof(Place);
  }
  __device__ explicit StagedTablePlaces(RowLanes const& shape)
      : count(static_cast<std::uint32_t>(count_of(shape))), places(memory()) {
    places += (threadIdx.x >> shape.log2_lanes) * count;
  }

 private:
  static __device__ Place* memory() {
    extern __shared__ uint4 staged_of_block[];
    return reinterpret_cast<Place*>(staged_of_block);
  }
};

/// Looks up one sorted position.
template <class Place, class Sink>
__device__ Place stage_place(TablesGradientArgs const& args,
                             BagWidths const& widths,
                             Sink const& sink,
                             std::uint32_t at) {
  Place staged;
  auto const rank = __ldg(args.ranks + at);
  auto const rank_behind = at + 1 < args.places ? __ldg(args.ranks + at + 1) : -1;
  staged.place = __ldg(args.positions + at);
  if (rank < 0) {
    return staged;
  }
  auto const batch = static_cast<unsigned>(args.batch);
  auto const bag = static_cast<unsigned>(__ldg(args.bags_of_places + staged.place));
  auto const table = bag / batch;
  staged.table = static_cast<std::int32_t>(table);
  staged.row = static_cast<std::int32_t>(bag - table * batch);
  staged.set_element(staged.row * widths.output + __ldg(&args.tables[table].first_column));
  if (args.factors != nullptr) {
    staged.factor = __ldg(args.factors + staged.place);
  }
  if (rank != rank_behind) {
    staged.set_target(sink.target_of(args, staged.table, rank));
  }
  return staged;
}

/// Looks up sorted positions of one table from `first` on, as many as fit and are before `end`.
/// Returns their number, and marks the others so that they add nothing.
template <class Place, class Sink>
__device__ std::uint32_t stage_places(TablesGradientArgs const& args,
                                      BagWidths const& widths,
                                      RowLanes const& shape,
                                      Sink const& sink,
                                      std::uint32_t first,
                                      std::uint32_t end,
                                      StagedTablePlaces<Place> const& staged) {
  auto const lanes = lanes_of_group(shape);
  auto const lane = static_cast<std::uint32_t>(shape.lane());
  __syncwarp(lanes);  // all lanes have used the previous positions
  for (auto i = lane; i < staged.count; i += shape.lanes()) {
    staged.places[i] =
        first + i < end ? stage_place<Place>(args, widths, sink, first + i) : Place{};
  }
  __syncwarp(lanes);
  auto const table = staged.places[0].table;
  auto count = min(staged.count, end - first);
  for (auto i = lane; i < count; i += shape.lanes()) {
    if (staged.places[i].table != table) {
      count = i;
    }
  }
  for (int distance = shape.lanes() / 2; distance > 0; distance /= 2) {
    count = min(count, __shfl_xor_sync(lanes, count, distance));
  }
  for (auto i = lane; i < staged.count; i += shape.lanes()) {
    if (i >= count) {
      staged.places[i] = Place{};
    }
  }
  __syncwarp(lanes);
  return count;
}

/// Requests the gradients at staged positions of a table of `width` columns.
template <bool IsWhole, class T, int Count>
__device__ void load_gradients(void const* output_gradient,
                               StagedTablePlace const* places,
                               int column,
                               int width,
                               Columns<kTableSumCount> (&loaded)[Count]) {
  auto const* const gradient = static_cast<T const*>(output_gradient) + column;
#pragma unroll
  for (int k = 0; k < Count; ++k) {
    loaded[k] = {};
    if (auto const element = places[k].element; element >= 0 && column < width) {
      loaded[k] = IsWhole ? load_columns<kTableSumCount>(gradient + element)
                          : load_some_columns(gradient + element, width - column);
    }
  }
}

/// Adds kTableSumCount columns of the gradients at staged positions, and finishes each row that
/// ends with one of them: a row that began in an earlier part becomes the part's head. `argmax` is
/// that of the table, whose rows are `argmax_width` elements apart, or null.
template <class Sink>
__device__ void sum_places(TablesGradientArgs const& args,
                           RowLanes const& shape,
                           Sink const& sink,
                           typename Sink::Table const& table,
                           std::int32_t const* argmax,
                           std::int64_t argmax_width,
                           StagedTablePlace const* places,
                           std::uint32_t count,
                           int column,
                           float* head_row,
                           bool& is_head,
                           Columns<kTableSumCount>& sum) {
  constexpr int kInFlight = Sink::kInFlight;
  static_assert(StagedTablePlaces<StagedTablePlace>::kLeast % kInFlight == 0);
  auto const width = static_cast<int>(shape.width);
  int const columns = width - column;
  for (std::uint32_t next = 0; next < count; next += kInFlight) {
    auto const* const now = places + next;
    typename Sink::Ahead ahead[kInFlight];
    Columns<kTableSumCount> loaded[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (auto const target = now[k].target_again(); target >= 0) {
        ahead[k].load(table, target, column);
      }
    }
    if (args.gradient_dtype == DType::float32) {
      load_gradients<Sink::kIsWhole, float>(args.output_gradient, now, column, width, loaded);
    } else if (args.gradient_dtype == DType::bfloat16) {
      load_gradients<Sink::kIsWhole, bfloat16>(args.output_gradient, now, column, width, loaded);
    } else {
      load_gradients<Sink::kIsWhole, float16>(args.output_gradient, now, column, width, loaded);
    }
    if (argmax != nullptr) {
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (now[k].element >= 0 && columns > 0) {
          keep_maxima(
              loaded[k], argmax + now[k].row * argmax_width + column, now[k].place, columns);
        }
      }
    }
    if (args.factors != nullptr) {
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        loaded[k].multiply(now[k].factor);
      }
    }
    float squares[kInFlight] = {};
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (now[k].element >= 0) {
        sum.add(loaded[k]);
      }
      loaded[k] = sum;
      if (now[k].target_again() >= 0) {
        squares[k] = sink.squares_of(table, ahead[k], sum);
        sum = {};
      }
    }
    sink.add_squares(squares, shape);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (auto const target = now[k].target_again(); target >= 0) {
        if (is_head) {
          store_some_columns(head_row + column, loaded[k], columns);
        } else {
          sink.finish(table, ahead[k], shape, target, column, loaded[k], squares[k]);
        }
        is_head = false;
      }
    }
  }
}

/// Sums the gradients of one part of the sorted positions per group of lanes, and passes the sums
/// of rows whose positions it contains completely to the sink.
template <class Sink>
__global__ void __launch_bounds__(kTableSumThreads, Sink::kBlocks)
    table_sum_parts_kernel(__grid_constant__ TablesGradientArgs const args,
                           __grid_constant__ Sink const sink,
                           RowLanes const shape,
                           TableSumParts const parts,
                           BagWidths const widths,
                           float* tails,
                           float* heads) {
  if (sink.is_skipped()) {
    return;
  }
  auto const part = grid_thread() >> shape.log2_lanes;
  TableSumPart const mine(args, parts, part);
  StagedTablePlaces<StagedTablePlace> const staged(shape);
  auto const widest = static_cast<int>(shape.width);
  for (int column = shape.lane() * kTableSumCount; column - shape.lane() * kTableSumCount < widest;
       column += shape.lanes() * kTableSumCount) {
    Columns<kTableSumCount> sum;
    bool is_head = mine.has_head;
    std::int32_t number = -1;
    typename Sink::Table table{};
    RowLanes of_table = shape;  ///< the lanes of the widest rows, of which narrower ones use a part
    std::int32_t const* argmax = nullptr;
    for (auto first = mine.begin; first < mine.end;) {
      auto const count = stage_places(args, widths, shape, sink, first, mine.end, staged);
      auto const next = staged.places[0].table;
      if (next < 0) {
        break;
      }
      if (next != number) {
        number = next;
        table = sink.table(args, number);
        auto const& about = args.tables[number];
        of_table.width = about.width;
        argmax = args.argmax != nullptr && about.pooling == Pooling::max
                     ? args.argmax + about.first_argmax_column
                     : nullptr;
      }
      if (table.exists()) {
        sum_places(args,
                   of_table,
                   sink,
                   table,
                   argmax,
                   widths.argmax,
                   staged.places,
                   count,
                   column,
                   heads + part * widest,
                   is_head,
                   sum);
      } else {
        is_head = false;  // the part's first row is of a table that does not exist for the sink
      }
      first += count;
    }
    if (mine.has_tail && table.exists()) {
      store_some_columns(
          tails + part * widest + column, sum, static_cast<int>(of_table.width) - column);
    }
  }
}

}  // namespace msstream::ops::kernels
