// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/rounded.hpp"
#include "optimizer/optimizer_math.hpp"

#include <msstream/base/dtype.hpp>

#include <array>
#include <cstdint>

namespace msstream::ops::kernels {

/// Updates `count` neighbouring weights and their optimizer state by their gradients. The arrays
/// must not overlap.
template <OptimizerKind Kind, class Weight>
void move_range(StepRule const& rule,
                Weight* __restrict weights,
                float const* __restrict gradients,
                float* __restrict states0,
                float* __restrict states1,
                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    float weight = to_float(weights[i]);
    float state0 = 0.0F;
    float state1 = 0.0F;
    if constexpr (has_state0<Kind>) {
      state0 = states0[i];
    }
    if constexpr (has_state1<Kind>) {
      state1 = states1[i];
    }
    move<Kind>(rule, gradients[i], weight, state0, state1);
    weights[i] = from_float<Weight>(weight);
    if constexpr (has_state0<Kind>) {
      states0[i] = state0;
    }
    if constexpr (has_state1<Kind>) {
      states1[i] = state1;
    }
  }
}

/// A table of weights of any floating-point type in host memory, with its optimizer state.
struct HostTable {
  void* weights;
  float* state0;
  float* state1;
  std::int64_t width;
};

/// Returns the sum of the squares of a row's gradient, in the order that add_square() describes.
inline float sum_of_squares(float const* gradient, std::int64_t width) {
  int const lanes = row_lanes(width);
  std::array<float, 32> sums{};
  for (std::int64_t c = 0; c < width; ++c) {
    auto& sum = sums[static_cast<std::size_t>(c / 4 % lanes)];
    sum = add_square(sum, gradient[c]);
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    auto const before = sums;
    for (int lane = 0; lane < lanes; ++lane) {
      auto const i = static_cast<std::size_t>(lane);
      sums[i] =
          (Rounded{before[i]} + Rounded{before[i ^ static_cast<std::size_t>(distance)]}).value;
    }
  }
  return sums[0];
}

/// Updates one row of a table by its gradient [width].
template <OptimizerKind Kind, class Weight>
void move_row(StepRule const& rule,
              HostTable const& table,
              std::int64_t row,
              float const* gradient) {
  auto const place = row * table.width;
  auto* const weights = static_cast<Weight*>(table.weights) + place;
  if constexpr (has_row_state<Kind>) {
    auto const rate =
        row_rate(rule, sum_of_squares(gradient, table.width), table.width, table.state0[row]);
    for (std::int64_t c = 0; c < table.width; ++c) {
      float weight = to_float(weights[c]);
      move_by(rate, gradient[c], weight);
      weights[c] = from_float<Weight>(weight);
    }
  } else {
    move_range<Kind>(rule,
                     weights,
                     gradient,
                     has_state0<Kind> ? table.state0 + place : nullptr,
                     has_state1<Kind> ? table.state1 + place : nullptr,
                     table.width);
  }
}

}  // namespace msstream::ops::kernels
