// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/row_vector.cuh"
#include "optimizer/optimizer_rows.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

// A sink receives each row of gradients that has been summed up. It maps the rank (number) of a sum
// to its target, a row of the sink's memory:
//
//   Ahead      holds four columns of a target, loaded together with the rows to add
//   squares()  adds up the squares of the sums of several rows, if the sink needs them
//   finish()   takes a sum; all lanes that share the row call squares() and finish()

/// A sink that stores the sums of gradients: the sum of rank r becomes row r.
template <bool IsWhole>
struct StoreSums {
  static constexpr int kInFlight = 4;
  static constexpr bool kIsWhole = IsWhole;
  /// The minimum number of blocks per multiprocessor: as many as the registers allow without
  /// spilling.
  static constexpr int kBlocks = IsWhole ? 4 : 3;
  static constexpr bool kNeedsWholeRows = false;
  float* sums;

  struct Step {};
  struct Ahead {
    __device__ void load(StoreSums const&, std::int64_t, std::int64_t) {}
  };
  __device__ Step step() const { return {}; }
  __device__ std::int64_t target_of(std::int32_t rank) const { return rank; }
  template <int Count>
  __device__ void squares(Step const&,
                          Ahead const (&)[Count],
                          Columns<4> const (&)[Count],
                          float (&)[Count],
                          RowLanes const&) const {}
  __device__ void finish(Step const&,
                         Ahead&,
                         std::int64_t row,
                         std::int64_t column,
                         Columns<4> const& sum,
                         float,
                         std::int64_t width) const {
    auto* const to = sums + row * width;
    if constexpr (IsWhole) {
      if (column < width) {  // a streaming store, because the sum is not read soon
        __stcs(reinterpret_cast<float4*>(to + column),
               make_float4(sum.at[0], sum.at[1], sum.at[2], sum.at[3]));
      }
    } else {
      store_four<false>(to, column, width, packed(sum));
    }
  }
};

/// A sink that updates the rows of a table by the sums of their gradients, which are stored
/// nowhere.
template <OptimizerKind Kind, class Weight>
struct MoveRows {
  static constexpr bool kIsLight =
      Kind == OptimizerKind::sgd || Kind == OptimizerKind::rowwise_adagrad;
  static constexpr int kInFlight = kIsLight ? 2 : 4;
  static constexpr bool kIsWhole = true;
  static constexpr int kBlocks = kIsLight ? 4 : 2;
  static constexpr bool kNeedsWholeRows = has_row_state<Kind>;
  DeviceTable<Weight> table;
  std::int64_t const* ids;  ///< row of the table for each rank
  OptimizerRule rule;
  GroupNumbers numbers;
  StepState const* state;

  using Step = StepRule;
  struct Ahead {
    RowInMotion<Kind, Weight, kIsWhole> columns;
    __device__ void load(MoveRows const& sink, std::int64_t row, std::int64_t column) {
      columns.load(sink.table, row, column);
    }
  };
  __device__ Step step() const { return rule_of_step<Kind>(rule, numbers, state); }
  __device__ std::int64_t target_of(std::int32_t rank) const { return __ldg(ids + rank); }
  template <int Count>
  __device__ void squares(Step const& step,
                          Ahead const (&ahead)[Count],
                          Columns<4> const (&sums)[Count],
                          float (&squares)[Count],
                          RowLanes const& shape) const {
    if constexpr (has_row_state<Kind>) {
      using Row = RowInMotion<Kind, Weight, kIsWhole>;
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        squares[k] = ahead[k].columns.squares_of(step, sums[k]);
      }
      Row::sum_over_lanes(squares, shape);
    }
  }
  __device__ void finish(Step const& step,
                         Ahead& ahead,
                         std::int64_t row,
                         std::int64_t column,
                         Columns<4> const& sum,
                         float squares,
                         std::int64_t width) const {
    ahead.columns.move_columns(step, sum, squares, width, NearestRounding{}.at(row, column));
    ahead.columns.store(table, row, column);
  }
};

}  // namespace msstream::ops::kernels
