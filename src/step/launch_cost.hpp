// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/auto_assignment.hpp>

namespace msstream {

/// Returns the host time that the launch of an operation takes on the issuing thread, outside
/// graphs.
[[nodiscard]] inline double launch_cost_ns(StepTrace::Operation const& operation,
                                           StepModel const& model) {
  return operation.launch_ns != 0 ? operation.launch_ns : model.cost.launch_call_ns;
}

}  // namespace msstream
