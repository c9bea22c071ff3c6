// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/predict.hpp>

namespace msstream {

/// What an operation that no graph replays costs the thread that issues it.
[[nodiscard]] inline double launch_cost_ns(StepOperation const& operation, StepModel const& model) {
  return operation.launch_ns != 0 ? operation.launch_ns : model.cost.launch_call_ns;
}

}  // namespace msstream
