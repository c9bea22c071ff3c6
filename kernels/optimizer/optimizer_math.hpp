// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/real_types.hpp"
#include "common/rounded.hpp"
#include "optimizer/optimizer.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/base/error.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

/// The update rules of the optimizers for one element. The CPU and the CUDA implementation evaluate
/// each rule operation for operation alike.
namespace msstream::ops::kernels {

template <OptimizerKind Kind>
inline constexpr bool has_state0 = Kind != OptimizerKind::sgd;
template <OptimizerKind Kind>
inline constexpr bool has_state1 = Kind == OptimizerKind::adam;
/// Whether the optimizer rule keeps one number of state per row, in state0.
template <OptimizerKind Kind>
inline constexpr bool has_row_state = Kind == OptimizerKind::rowwise_adagrad;

/// The constants of an optimizer rule in one step, which include Adam's corrections.
struct StepRule {
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  float correction1;
  float correction2;
};

/// Returns the constants of an optimizer rule for a step. Only Adam reads `step`, which may be null
/// for the other rules.
template <OptimizerKind Kind>
MSSTREAM_HOST_DEVICE inline StepRule rule_of_step(OptimizerRule const& rule,
                                                  StepState const* step) {
  StepRule out{rule.learning_rate, rule.beta1, rule.beta2, rule.epsilon, 1.0F, 1.0F};
  if constexpr (Kind == OptimizerKind::adam) {
    out.correction1 = step->correction1;
    out.correction2 = step->correction2;
  }
  return out;
}

template <OptimizerKind Kind>
MSSTREAM_HOST_DEVICE inline void move(
    StepRule const& rule, float gradient, float& weight, float& state0, float& state1) {
  Rounded const rate{rule.learning_rate};
  Rounded const beta1{rule.beta1};
  Rounded const epsilon{rule.epsilon};
  Rounded const g{gradient};
  Rounded const w{weight};
  if constexpr (Kind == OptimizerKind::sgd) {
    weight = (w - rate * g).value;
  } else if constexpr (Kind == OptimizerKind::momentum) {
    Rounded const kept = beta1 * Rounded{state0} + g;
    state0 = kept.value;
    weight = (w - rate * kept).value;
  } else if constexpr (Kind == OptimizerKind::adagrad) {
    Rounded const squares = Rounded{state0} + g * g;
    state0 = squares.value;
    weight = (w - rate * g / (root(squares) + epsilon)).value;
  } else {
    static_assert(Kind == OptimizerKind::adam);
    Rounded const beta2{rule.beta2};
    Rounded const one{1.0F};
    Rounded const mean = beta1 * Rounded{state0} + (one - beta1) * g;
    Rounded const squares = beta2 * Rounded{state1} + (one - beta2) * (g * g);
    state0 = mean.value;
    state1 = squares.value;
    Rounded const bound = root(squares * Rounded{rule.correction2}) + epsilon;
    weight = (w - rate * Rounded{rule.correction1} * mean / bound).value;
  }
}

/// Adds the mean of a row's squared gradients to the row's state, by the rule of row-wise Adagrad,
/// and returns the rate with which move_by() updates the row's elements.
MSSTREAM_HOST_DEVICE inline float row_rate(StepRule const& rule,
                                           float sum_of_squares,
                                           std::int64_t width,
                                           float& row_state) {
  Rounded const mean = Rounded{sum_of_squares} / Rounded{static_cast<float>(width)};
  Rounded const state = Rounded{row_state} + mean;
  row_state = state.value;
  return (Rounded{rule.learning_rate} / (root(state) + Rounded{rule.epsilon})).value;
}
MSSTREAM_HOST_DEVICE inline void move_by(float rate, float gradient, float& weight) {
  weight = (Rounded{weight} - Rounded{rate} * Rounded{gradient}).value;
}

// Adds the square of a gradient to a lane's part of the sum of a row's squares. The order of the
// additions is fixed, so that the sum has the same bits in all kernels and on the host: lane l of
// row_lanes() lanes adds the columns 4l to 4l + 3, and again at every further 4 * row_lanes()
// columns; then each lane adds the sum of the lane at a distance, which goes from half of the lanes
// down to one.

MSSTREAM_HOST_DEVICE inline float add_square(float sum, float gradient) {
  return (Rounded{sum} + Rounded{gradient} * Rounded{gradient}).value;
}
/// Returns the number of lanes that share a row of `width` columns: a power of two, at most 32.
[[nodiscard]] constexpr int row_lanes(std::int64_t width) {
  std::int64_t lanes = 1;
  while (lanes < 32 && 4 * lanes < width) {
    lanes *= 2;
  }
  return static_cast<int>(lanes);
}

/// Increments the step counter and computes Adam's corrections for the new step.
MSSTREAM_HOST_DEVICE inline void advance(OptimizerRule const& rule, StepState& state) {
  state.step += 1;
  auto const t = static_cast<double>(state.step);
  state.correction1 =
      static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(rule.beta1), t)));
  state.correction2 =
      static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(rule.beta2), t)));
}

/// Calls `function` with the optimizer kind as a compile-time constant, so that each kind has an
/// instantiation of its own.
template <class Function>
void with_kind(OptimizerKind kind, Function&& function) {
  switch (kind) {
    case OptimizerKind::sgd:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::sgd>{});
    case OptimizerKind::momentum:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::momentum>{});
    case OptimizerKind::adagrad:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::adagrad>{});
    case OptimizerKind::rowwise_adagrad:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::rowwise_adagrad>{});
    case OptimizerKind::adam:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::adam>{});
  }
}
/// Calls `function` with the optimizer kind that dense parameters use, as a compile-time constant.
/// Dense parameters have no rows, so row-wise Adagrad becomes Adagrad.
template <class Function>
void with_dense_kind(OptimizerKind kind, Function&& function) {
  with_kind(dense_kind(kind), [&](auto known) {
    if constexpr (!has_row_state<known()>) {
      function(known);
    }
  });
}

/// Throws std::invalid_argument unless the weights of all tables have a floating-point type.
/// Callers must call require_table_types() before they launch a kernel.
inline void require_table_types(std::span<RowUpdate const> updates) {
  for (auto const& update : updates) {
    require_real_type("update_rows: a table", update.dtype);
  }
}

}  // namespace msstream::ops::kernels
