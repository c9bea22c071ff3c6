// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/auto_assignment.hpp>

namespace msstream {

/// Returns the host time in ns that the issuing thread takes to launch the operation outside a
/// graph.
[[nodiscard]] inline double launch_cost_ns(StepTrace::Operation const& operation,
                                           StepModel const& model) {
  return operation.launch_ns != 0 ? operation.launch_ns : model.cost.launch_call_ns;
}

}  // namespace msstream
