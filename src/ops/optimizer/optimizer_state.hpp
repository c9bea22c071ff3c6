// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/common/bag_view.hpp"
#include "optimizer/optimizer.hpp"

#include <msstream/ops/optimizer.hpp>

#include <optional>
#include <source_location>

namespace msstream::ops::detail {

/// Throws std::invalid_argument unless the optimizer state belongs to a rule of this kind, and fits
/// a parameter of this shape.
void require_state(char const* operation,
                   OptimizerKind kind,
                   OptimizerState<AnyRuntime> const& state,
                   Shape const& parameter);
/// Adds the tensors of the optimizer state to the tensors that an operation writes.
void add_state(OptimizerState<AnyRuntime> const& state, Writes& written);

/// Returns the numbers with which parameters of a group are updated by a rule.
[[nodiscard]] kernels::GroupNumbers numbers_of(OptimizerRule const& rule,
                                               ParameterGroup const& group = {}) noexcept;

/// Returns the device address of an optimizer state's elements, or null if the rule has no such
/// state.
[[nodiscard]] inline float* data_of(std::optional<Floats> const& state) {
  return state ? state->data() : nullptr;
}
/// Returns the device address of an optimizer's step counter.
[[nodiscard]] inline kernels::StepState* data_of(StepCounter<AnyRuntime> const& step) {
  return reinterpret_cast<kernels::StepState*>(step.tensor().data());
}
/// Waits for all earlier steps, and returns the state of an optimizer's step counter.
[[nodiscard]] kernels::StepState read_step(StepCounter<AnyRuntime> const& step,
                                           std::source_location issued_at);

}  // namespace msstream::ops::detail
