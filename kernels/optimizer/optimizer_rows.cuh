// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/float_conversions.cuh"
#include "common/rounded.hpp"
#include "common/row_vector.cuh"
#include "common/vector_map.cuh"
#include "optimizer/optimizer_math.hpp"
#include "optimizer/row_rounding.cuh"

#include <bit>
#include <cstdint>

namespace msstream::ops::kernels {

/// Returns the mask of the lanes of the calling thread's warp that work on the same row.
__device__ inline unsigned lanes_of_group(RowLanes const& shape) {
  unsigned const first = threadIdx.x % 32 & ~static_cast<unsigned>(shape.lanes() - 1);
  return shape.lanes() == 32 ? 0xFFFFFFFFU : ((1U << shape.lanes()) - 1) << first;
}

/// Loads four neighbouring columns of a row into registers: with one access if `IsWhole`, otherwise
/// only the columns that lie within the row. If `Streams`, a whole access marks the data as used
/// once, so that the data leave the L2 cache first.
template <bool IsWhole, bool Streams = false, class T>
__device__ void load_four(T const* row, std::int64_t column, std::int64_t width, Pack<T, 4>& to) {
  using Four = detail::Packed<4 * static_cast<int>(sizeof(T))>;
  if constexpr (IsWhole) {
    if (column < width) {
      auto const* const from = reinterpret_cast<Four const*>(row + column);
      to = std::bit_cast<Pack<T, 4>>(Streams ? __ldcs(from) : *from);
    }
  } else {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (column + c < width) {
        to.lanes[c] = row[column + c];
      }
    }
  }
}
template <bool IsWhole, bool Streams = false, class T>
__device__ void store_four(T* row,
                           std::int64_t column,
                           std::int64_t width,
                           Pack<T, 4> const& from) {
  using Four = detail::Packed<4 * static_cast<int>(sizeof(T))>;
  if constexpr (IsWhole) {
    if (column < width) {
      auto* const to = reinterpret_cast<Four*>(row + column);
      if constexpr (Streams) {
        __stcs(to, std::bit_cast<Four>(from));
      } else {
        *to = std::bit_cast<Four>(from);
      }
    }
  } else {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (column + c < width) {
        row[column + c] = from.lanes[c];
      }
    }
  }
}

__device__ inline Pack<float, 4> packed(Columns<4> const& columns) {
  return {{columns.at[0], columns.at[1], columns.at[2], columns.at[3]}};
}
__device__ inline Columns<4> unpacked(Pack<float, 4> const& four) {
  return {{four.lanes[0], four.lanes[1], four.lanes[2], four.lanes[3]}};
}

/// A table of weights in device memory, with its optimizer state.
template <class Weight>
struct DeviceTable {
  Weight* weights;
  float* state0;
  float* state1;
  std::int64_t width;
};

/// Four columns of a table row with their optimizer state, in one thread's registers.
template <OptimizerKind Kind, class Weight, bool IsWhole>
struct RowInMotion {
  Pack<Weight, 4> weights{};
  Pack<float, 4> state0{};
  Pack<float, 4> state1{};
  float row_state = 0.0F;

  __device__ void load(DeviceTable<Weight> const& table, std::int64_t row, std::int64_t column) {
    auto const place = row * table.width;
    load_four<IsWhole, true>(table.weights + place, column, table.width, weights);
    if constexpr (has_row_state0<Kind>) {
      row_state = table.state0[row];
    } else if constexpr (has_state0<Kind>) {
      load_four<IsWhole, true>(table.state0 + place, column, table.width, state0);
    }
    if constexpr (has_row_state1<Kind>) {
      row_state = table.state1[row];
    } else if constexpr (has_state1<Kind>) {
      load_four<IsWhole, true>(table.state1 + place, column, table.width, state1);
    }
  }

  /// Loads columns that begin at these elements of a table and of its state, if they exist.
  /// Together with load_row_state(), does what load() does, with less arithmetic.
  __device__ void load_at(Weight const* of_weights,
                          float const* of_state0,
                          float const* of_state1,
                          bool exists) {
    load_four<true, true>(of_weights, 0, exists, weights);
    if constexpr (has_state0<Kind> && !has_row_state0<Kind>) {
      load_four<true, true>(of_state0, 0, exists, state0);
    }
    if constexpr (has_state1<Kind> && !has_row_state1<Kind>) {
      load_four<true, true>(of_state1, 0, exists, state1);
    }
  }
  __device__ void load_row_state(DeviceTable<Weight> const& table, std::uint32_t row) {
    if constexpr (has_row_state<Kind>) {
      row_state =
          __ldcg(row_at(has_row_state0<Kind> ? table.state0 : table.state1, row, sizeof(float)));
    }
  }
  /// Stores what load_at() and load_row_state() have loaded.
  __device__ void store_at(Weight* of_weights,
                           float* of_state0,
                           float* of_state1,
                           bool exists) const {
    store_four<true, true>(of_weights, 0, exists, weights);
    if constexpr (has_state0<Kind> && !has_row_state0<Kind>) {
      store_four<true, true>(of_state0, 0, exists, state0);
    }
    if constexpr (has_state1<Kind> && !has_row_state1<Kind>) {
      store_four<true, true>(of_state1, 0, exists, state1);
    }
  }
  __device__ void store_row_state(DeviceTable<Weight> const& table, std::uint32_t row) const {
    if constexpr (has_row_state<Kind>) {
      __stcg(row_at(has_row_state0<Kind> ? table.state0 : table.state1, row, sizeof(float)),
             row_state);
    }
  }

  /// Updates weights and optimizer state by a gradient. All lanes of the row must call
  /// move_columns(). For a rule that needs whole rows, the lanes must hold the whole row at once;
  /// `column` is the first column of the calling lane. `rounding` is what a way of rounding has for
  /// these columns: see optimizer/row_rounding.cuh.
  template <class FourColumns>
  __device__ void move_columns(StepRule const& rule,
                               Columns<4> const& gradient,
                               RowLanes const& shape,
                               std::int64_t column,
                               FourColumns const& rounding) {
    if constexpr (has_trust_ratio<Kind>) {
      move_moments_of(rule, gradient);
      float sums[2] = {0.0F, 0.0F};
      add_norms(rule, column, shape.width, sums);
      sum_over_lanes(sums, shape);
      move_by_ratio(rule, trust_ratio(sums[0], sums[1]), rounding);
    } else {
      float squares = 0.0F;
      if constexpr (has_row_state<Kind>) {
        squares = sum_over_lanes(squares_of(rule, gradient), shape);
      }
      move_columns(rule, gradient, squares, shape.width, rounding);
    }
  }
  /// Updates weights and optimizer state by a gradient. `squares` is the sum of the squares of the
  /// row's gradient, which only rules with one number of state per row use. Not for LAMB.
  template <class FourColumns>
  __device__ void move_columns(StepRule const& rule,
                               Columns<4> const& gradient,
                               float squares,
                               std::int64_t width,
                               FourColumns const& rounding) {
    if constexpr (has_row_state<Kind>) {
      move_columns_by(
          rule, gradient, move_row_state<Kind>(rule, squares, width, row_state), rounding);
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float weight = widen(weights.lanes[c]);
        move<Kind>(rule, gradient.at[c], weight, state0.lanes[c], state1.lanes[c]);
        weights.lanes[c] = rounding.template narrow<Weight>(weight, c);
      }
    }
  }
  /// Updates the columns with the number that move_row_state() returned for their row.
  template <class FourColumns>
  __device__ void move_columns_by(StepRule const& rule,
                                  Columns<4> const& gradient,
                                  float of_row,
                                  FourColumns const& rounding) {
    move_shaped_columns(rule, shaped_columns(rule, gradient), of_row, rounding);
  }
  /// Does what move_columns_by() does, with columns that shaped_columns() has returned.
  template <class FourColumns>
  __device__ void move_shaped_columns(StepRule const& rule,
                                      Columns<4> const& used,
                                      float of_row,
                                      FourColumns const& rounding) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      float weight = widen(weights.lanes[c]);
      move_in_row<Kind>(rule, of_row, used.at[c], weight, state0.lanes[c]);
      weights.lanes[c] = rounding.template narrow<Weight>(weight, c);
    }
  }

  /// LAMB: updates the moments.
  __device__ void move_moments_of(StepRule const& rule, Columns<4> const& gradient) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      Rounded const g{shaped(rule, gradient.at[c], widen(weights.lanes[c]))};
      move_moments(rule, g, state0.lanes[c], state1.lanes[c]);
    }
  }
  __device__ float update_of(StepRule const& rule, int c) const {
    return lamb_update(rule, widen(weights.lanes[c]), state0.lanes[c], state1.lanes[c]);
  }
  /// LAMB: adds the squares of the weights and of their updates to the two sums.
  __device__ void add_norms(StepRule const& rule,
                            std::int64_t column,
                            std::int64_t width,
                            float (&sums)[2]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (column + c < width) {
        sums[0] = add_square(sums[0], widen(weights.lanes[c]));
        sums[1] = add_square(sums[1], update_of(rule, c));
      }
    }
  }
  /// LAMB: updates the weights from the new moments.
  template <class FourColumns>
  __device__ void move_by_ratio(StepRule const& rule, float ratio, FourColumns const& rounding) {
    float const rate = lamb_rate(rule, ratio);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      float weight = widen(weights.lanes[c]);
      move_by_update(rate, update_of(rule, c), weight);
      weights.lanes[c] = rounding.template narrow<Weight>(weight, c);
    }
  }

  __device__ void store(DeviceTable<Weight> const& table,
                        std::int64_t row,
                        std::int64_t column) const {
    auto const place = row * table.width;
    store_four<IsWhole, true>(table.weights + place, column, table.width, weights);
    store_state(table, row, column);
  }
  __device__ void store_state(DeviceTable<Weight> const& table,
                              std::int64_t row,
                              std::int64_t column) const {
    auto const place = row * table.width;
    if constexpr (has_row_state<Kind>) {
      if (column == 0) {
        (has_row_state0<Kind> ? table.state0 : table.state1)[row] = row_state;
      }
    }
    if constexpr (has_state0<Kind> && !has_row_state0<Kind>) {
      store_four<IsWhole, true>(table.state0 + place, column, table.width, state0);
    }
    if constexpr (has_state1<Kind> && !has_row_state1<Kind>) {
      store_four<IsWhole, true>(table.state1 + place, column, table.width, state1);
    }
  }

  /// Returns the gradient that the rule uses. All rows of a step take the same branch, which costs
  /// less than the arithmetic that changes nothing.
  __device__ Columns<4> shaped_columns(StepRule const& rule, Columns<4> const& gradient) const {
    if (rule.keeps_gradients) {
      return gradient;
    }
    Columns<4> used;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      used.at[c] = shaped(rule, gradient.at[c], widen(weights.lanes[c]));
    }
    return used;
  }
  /// Adds the squares of the gradient that the rule uses to those of the lane's columns before.
  __device__ float squares_of(StepRule const& rule,
                              Columns<4> const& gradient,
                              float squares = 0.0F) const {
    auto const used = shaped_columns(rule, gradient);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      // Beyond the width, gradient and weights are 0.
      squares = add_square(squares, used.at[c]);
    }
    return squares;
  }
  /// Returns to all lanes of a row the sum of their values, in the order of additions that
  /// add_square() describes.
  static __device__ float sum_over_lanes(float sum, RowLanes const& shape) {
    float sums[] = {sum};
    sum_over_lanes(sums, shape);
    return sums[0];
  }
  /// Does what sum_over_lanes() does, if all lanes of the warp call it.
  static __device__ float sum_over_lanes_of_warp(float sum, RowLanes const& shape) {
    auto const add = [&](int distance) {
      sum = (Rounded{sum} + Rounded{__shfl_xor_sync(0xFFFFFFFFU, sum, distance)}).value;
    };
    if (shape.lanes() == 16) {  // as rows of 128 columns have; the loop has more instructions
#pragma unroll
      for (int distance = 8; distance > 0; distance /= 2) {
        add(distance);
      }
    } else {
      for (int distance = shape.lanes() / 2; distance > 0; distance /= 2) {
        add(distance);
      }
    }
    return sum;
  }
  /// Adds up the values of the lanes for several rows at once, so that the shuffles of one row hide
  /// the latency of the others.
  template <int Count>
  static __device__ void sum_over_lanes(float (&sums)[Count], RowLanes const& shape) {
    auto const add = [&](unsigned mask, int distance) {
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        sums[k] = (Rounded{sums[k]} + Rounded{__shfl_xor_sync(mask, sums[k], distance)}).value;
      }
    };
    if (shape.lanes() == 32) {
      // With a constant mask, the code does not find out before each shuffle which lanes take part.
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        add(0xFFFFFFFFU, distance);
      }
      return;
    }
    auto const mask = lanes_of_group(shape);
    for (int distance = shape.lanes() / 2; distance > 0; distance /= 2) {
      add(mask, distance);
    }
  }
};

}  // namespace msstream::ops::kernels
