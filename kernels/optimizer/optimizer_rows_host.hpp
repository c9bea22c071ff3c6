// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/rounded.hpp"
#include "optimizer/optimizer_math.hpp"
#include "optimizer/stochastic_rounding.hpp"

#include <msstream/base/dtype.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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
  RowRounding rounding = {};
  std::int64_t step = 0;  ///< step_of() the step, for stochastic rounding
};

/// Returns the sum of the squares of value(c) for the columns c of a row, in the order that
/// add_square() describes.
template <class Value>
float squares_of_row(std::int64_t width, Value const& value) {
  int const lanes = row_lanes(width);
  std::array<float, 32> sums{};
  for (std::int64_t c = 0; c < width; ++c) {
    auto& sum = sums[static_cast<std::size_t>(c / 4 % lanes)];
    sum = add_square(sum, value(c));
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

/// Updates one row of a table by LAMB.
template <class Weight>
void move_row_by_lamb(StepRule const& rule,
                      Weight* weights,
                      float const* gradient,
                      float* states0,
                      float* states1,
                      std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) {
    Rounded const g{shaped(rule, gradient[c], to_float(weights[c]))};
    move_moments(rule, g, states0[c], states1[c]);
  }
  auto const update_of = [&](std::int64_t c) {
    return lamb_update(rule, to_float(weights[c]), states0[c], states1[c]);
  };
  auto const squares = squares_of_row(width, [&](auto c) { return to_float(weights[c]); });
  auto const rate = lamb_rate(rule, trust_ratio(squares, squares_of_row(width, update_of)));
  for (std::int64_t c = 0; c < width; ++c) {
    float weight = to_float(weights[c]);
    move_by_update(rate, update_of(c), weight);
    weights[c] = from_float<Weight>(weight);
  }
}

/// Updates the weights of row `row` of a table, and the optimizer state of the row, by its gradient
/// [width]. The weights may be a copy of those of the table.
template <OptimizerKind Kind, class Weight>
void move_weights(StepRule const& rule,
                  HostTable const& table,
                  std::int64_t row,
                  float const* gradient,
                  Weight* weights) {
  auto const place = row * table.width;
  auto* const states0 = has_state0<Kind> && !has_row_state0<Kind> ? table.state0 + place : nullptr;
  auto* const states1 = has_state1<Kind> && !has_row_state1<Kind> ? table.state1 + place : nullptr;
  if constexpr (has_trust_ratio<Kind>) {
    move_row_by_lamb(rule, weights, gradient, states0, states1, table.width);
  } else if constexpr (has_row_state<Kind>) {
    auto const squares = squares_of_row(
        table.width, [&](auto c) { return shaped(rule, gradient[c], to_float(weights[c])); });
    auto const of_row = move_row_state<Kind>(
        rule, squares, table.width, (has_row_state0<Kind> ? table.state0 : table.state1)[row]);
    for (std::int64_t c = 0; c < table.width; ++c) {
      float weight = to_float(weights[c]);
      float unused = 0.0F;
      move_in_row<Kind>(rule,
                        of_row,
                        shaped(rule, gradient[c], weight),
                        weight,
                        has_row_state0<Kind> ? unused : states0[c]);
      weights[c] = from_float<Weight>(weight);
    }
  } else {
    move_range<Kind>(rule, weights, gradient, states0, states1, table.width);
  }
}

/// Updates one row of a table by its gradient [width]. The weights are rounded to nearest, ties to
/// even.
template <OptimizerKind Kind, class Weight>
void move_row(StepRule const& rule,
              HostTable const& table,
              std::int64_t row,
              float const* gradient) {
  move_weights<Kind>(
      rule, table, row, gradient, static_cast<Weight*>(table.weights) + row * table.width);
}

/// Updates one row of a table by its gradient [width]. The weights are rounded stochastically.
template <OptimizerKind Kind, HalfElement Weight>
void move_row_stochastically(StepRule const& rule,
                             HostTable const& table,
                             std::int64_t row,
                             float const* gradient) {
  auto* const weights = static_cast<Weight*>(table.weights) + row * table.width;
  thread_local std::vector<float> moved;  // which no other row of the thread uses meanwhile
  moved.resize(static_cast<std::size_t>(table.width));
  for (std::int64_t c = 0; c < table.width; ++c) {
    moved[static_cast<std::size_t>(c)] = to_float(weights[c]);
  }
  move_weights<Kind>(rule, table, row, gradient, moved.data());
  for (std::int64_t first = 0; first < table.width; first += 4) {
    auto const words =
        rounding_words(table.rounding.key, table.step, table.rounding.first_row + row, first / 4);
    for (std::int64_t c = first; c < std::min(first + 4, table.width); ++c) {
      weights[c] =
          stochastically_rounded<Weight>(moved[static_cast<std::size_t>(c)], words.at[c - first]);
    }
  }
}

}  // namespace msstream::ops::kernels
