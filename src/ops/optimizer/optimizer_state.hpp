// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/common/bag_view.hpp"
#include "optimizer/optimizer.hpp"

#include <msstream/ops/optimizer.hpp>

#include <optional>

namespace msstream::ops::detail {

/// Throws std::invalid_argument unless the state is that of a rule of this kind, for a parameter of
/// this shape.
void require_state(char const* operation,
                   OptimizerKind kind,
                   OptimizerState<AnyRuntime> const& state,
                   Shape const& parameter);
/// Adds the state's tensors to `written`.
void add_state(OptimizerState<AnyRuntime> const& state, Writes& written);

/// Returns the device address of a state's elements, or null if the rule has no such state.
[[nodiscard]] inline float* data_of(std::optional<Floats> const& state) {
  return state ? state->data() : nullptr;
}
/// Returns the device address of the counter.
[[nodiscard]] inline kernels::StepState* data_of(StepCounter<AnyRuntime> const& step) {
  return reinterpret_cast<kernels::StepState*>(step.tensor().data());
}

}  // namespace msstream::ops::detail
