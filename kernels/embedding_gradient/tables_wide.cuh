// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/tables_moves.cuh"

#include <cstdint>

/// The sums of embedding_gradient/tables_pairs.cuh for updates by rules that need sums over whole
/// rows of more than 128 columns. All lanes of a warp share a row, and hold all its columns at
/// once.
namespace msstream::ops::kernels {

/// The columns of a row that a lane has: `Quads` times four, the first from `column` on and each of
/// the others `distance` further on, as far as the row has them.
template <int Quads>
struct WideLane {
  int column;
  int distance;
  int width = 0;  ///< columns of the row

  __device__ WideLane(int first_column, int to_next) : column(first_column), distance(to_next) {}
  __device__ void set_width(std::int64_t columns) { width = static_cast<int>(columns); }
  [[nodiscard]] __device__ bool has(int quad) const { return column + quad * distance < width; }
};

/// Columns of a sum that a lane has.
template <int Quads>
struct WideColumns {
  static constexpr int kQuads = Quads;
  Columns<kTableSumCount> at[Quads];

  __device__ void store(float* row, WideLane<Quads> const& lane) const {
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
      int const column = lane.column + q * lane.distance;
      store_some_columns(row + column, at[q], lane.width - column);
    }
  }
};

/// Columns of a gradient of any type that a lane has, as they were loaded.
template <int Quads>
struct PackedWide {
  uint4 at[Quads] = {};

  template <class T>
  __device__ void load(T const* from, WideLane<Quads> const& lane) {
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
      load_packed(from + q * lane.distance, lane.has(q), at[q]);
    }
  }
};

/// Adds the gradient of a staged position to a sum. `argmax` is that of the table's first column,
/// or null if the table has no maxima.
template <int Quads>
__device__ void add_columns(TablesGradientArgs const& args,
                            StagedTablePlace const& place,
                            PackedWide<Quads> const& gradient,
                            std::int32_t const* argmax,
                            std::int64_t argmax_width,
                            WideLane<Quads> const& lane,
                            WideColumns<Quads>& sum) {
#pragma unroll
  for (int q = 0; q < Quads; ++q) {
    auto loaded = args.gradient_dtype == DType::float32    ? widened<float>(gradient.at[q])
                  : args.gradient_dtype == DType::bfloat16 ? widened<bfloat16>(gradient.at[q])
                                                           : widened<float16>(gradient.at[q]);
    if (argmax != nullptr && lane.has(q)) {
      keep_maxima(loaded,
                  argmax + place.row * argmax_width + lane.column + q * lane.distance,
                  place.place,
                  kTableSumCount);
    }
    if (args.factors != nullptr) {
      loaded.multiply(place.factor);
    }
    sum.at[q].add(loaded);
  }
}

/// The division of a row among the lanes of a warp. Lane l has the columns [4 l, 4 l + 4), and
/// again at every further 128 columns, as row_lanes() says, and adds their squares in its order.
template <int Quads>
struct WideRows {
  using Lane = WideLane<Quads>;
  using Sum = WideColumns<Quads>;
  using Packed = PackedWide<Quads>;
  static constexpr int kQuads = Quads;
  static constexpr int kWidest = Quads * 32 * kTableSumCount;  ///< columns of a row
  RowLanes shape;

  explicit WideRows(std::int64_t widest) : shape(32 * kTableSumCount, kTableSumCount) {
    shape.width = widest;
  }
  [[nodiscard]] __device__ int distance() const { return 32 * kTableSumCount; }
};

/// A sink that updates rows of up to WideRows<Quads>::kWidest columns, by a rule with one number of
/// state per row.
template <OptimizerKind Kind, class Weight, class Rounding, int Quads>
struct MoveWideRows : MoveTableRows<Kind, Weight, true, Rounding> {
  using Base = MoveTableRows<Kind, Weight, true, Rounding>;
  using Table = typename Base::Table;
  using Division = WideRows<Quads>;
  static_assert(has_row_state<Kind>);
  static constexpr bool kIsWide = true;
  static constexpr bool kTakesPairs = true;
  static constexpr int kBlocks = Quads > 2 && has_state1<Kind> ? 1 : 2;

  /// The columns of a target that a lane has.
  struct Held {
    using Row = RowInMotion<Kind, Weight, true>;
    Row at[Quads];

    __device__ void load(Table const& table, std::int64_t row, WideLane<Quads> const& lane) {
      auto const first = row * table.rows.width + lane.column;
#pragma unroll
      for (int q = 0; q < Quads; ++q) {
        at[q].load_whole(table.rows, first + q * lane.distance, lane.has(q));
      }
      at[0].load_row_state(table.rows, row);
    }
  };

  /// Returns the sum of the squares of a row's gradient to all lanes of the warp, which call it
  /// together.
  __device__ float squares_of(Table const& table,
                              Held const& held,
                              WideColumns<Quads> const& sum,
                              RowLanes const& shape) const {
    float of_lane = 0.0F;
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
      of_lane = held.at[q].squares_of(table.rule, sum.at[q], of_lane);
    }
    return Held::Row::sum_over_lanes_of_warp(of_lane, shape);
  }
  __device__ void finish(Table const& table,
                         Held& held,
                         std::int64_t row,
                         WideLane<Quads> const& lane,
                         WideColumns<Quads> const& sum,
                         float squares) const {
    auto of_row = move_row_state<Kind>(table.rule, squares, lane.width, held.at[0].row_state);
    asm("" : "+f"(of_row));  // otherwise the compiler computes it for each four columns
    auto const first = row * table.rows.width + lane.column;
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
      auto const rounding = table.rounding.at(row, lane.column + q * lane.distance);
      held.at[q].move_columns_by(table.rule, sum.at[q], of_row, rounding);
      held.at[q].store_whole(table.rows, first + q * lane.distance, lane.has(q));
    }
    if (lane.column == 0) {
      held.at[0].store_row_state(table.rows, row);
    }
  }
};

}  // namespace msstream::ops::kernels
