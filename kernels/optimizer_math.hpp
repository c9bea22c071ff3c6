// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise_math.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/base/error.hpp>
#include <msstream/ops/kernels/optimizer.hpp>

#include <cmath>
#include <span>
#include <type_traits>

/// The update rules, one element at a time: both twins evaluate them operation for operation.
namespace msstream::ops::kernels {

template <OptimizerKind Kind>
inline constexpr bool has_state0 = Kind != OptimizerKind::sgd;
template <OptimizerKind Kind>
inline constexpr bool has_state1 = Kind == OptimizerKind::adam;

/// A rule as one step needs it: Adam's corrections beside the constants.
struct StepRule {
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  float correction1;
  float correction2;
};

/// Only Adam reads `step`; the other rules may come without one.
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
  if constexpr (Kind == OptimizerKind::sgd) {
    weight -= rule.learning_rate * gradient;
  } else if constexpr (Kind == OptimizerKind::adagrad) {
    state0 += gradient * gradient;
    weight -= rule.learning_rate * gradient / (std::sqrt(state0) + rule.epsilon);
  } else {
    state0 = rule.beta1 * state0 + (1.0F - rule.beta1) * gradient;
    state1 = rule.beta2 * state1 + (1.0F - rule.beta2) * (gradient * gradient);
    weight -= rule.learning_rate * rule.correction1 * state0 /
              (std::sqrt(state1 * rule.correction2) + rule.epsilon);
  }
}

/// Counts the step and follows with the corrections.
MSSTREAM_HOST_DEVICE inline void advance(OptimizerRule const& rule, StepState& state) {
  state.step += 1;
  auto const t = static_cast<double>(state.step);
  state.correction1 =
      static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(rule.beta1), t)));
  state.correction2 =
      static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(rule.beta2), t)));
}

/// Calls `function` with the kind as a constant: one instantiation a rule.
template <class Function>
void with_kind(OptimizerKind kind, Function&& function) {
  switch (kind) {
    case OptimizerKind::sgd:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::sgd>{});
    case OptimizerKind::adagrad:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::adagrad>{});
    case OptimizerKind::adam:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::adam>{});
  }
}

/// Calls `function` with std::type_identity of the table's element type; throws
/// std::invalid_argument for a dtype that holds no weights.
template <class Function>
void with_table_type(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::float32:
      return function(std::type_identity<float>{});
    case DType::float16:
      return function(std::type_identity<float16>{});
    case DType::bfloat16:
      return function(std::type_identity<bfloat16>{});
    default:
      require(false, "update_rows: a table of ", name_of(dtype), " holds no weights");
  }
}

/// Throws std::invalid_argument unless all tables hold weights, before anything is launched.
inline void require_table_types(std::span<RowUpdate const> updates) {
  for (auto const& update : updates) {
    with_table_type(update.dtype, [](auto) {});
  }
}

}  // namespace msstream::ops::kernels
