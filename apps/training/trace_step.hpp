// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/step_setting.hpp"
#include "training/step_trace_options.hpp"
#include "training/step_training.hpp"

#include <msstream/step/auto_assignment.hpp>

#include <optional>

namespace msstream::training {

/// Traces a step of a temporary training of the model, and writes the file that the options name.
/// `build(device)` returns the model and its inputs, as for a StepTraining.
template <Runtime R, class Build>
[[nodiscard]] TracedStep trace_step(StepTraceOptions const& options,
                                    StepSetting const& setting,
                                    ops::OptimizerRule const& rule,
                                    Build const& build,
                                    std::optional<StreamAssignment> const& assignment = {}) {
  auto const trace = rehearse<R>(setting, rule, build, assignment);
  if (options.draws_step()) {
    auto const as_issued = rehearse<R>(setting, rule, build, assignment, SpanTiming::as_issued);
    // Takes the critical path from a trace whose times do not include launches.
    write_step_trace(options.step_trace, as_issued, trace.critical_path());
  } else if (!options.step_trace.empty()) {
    write_step_trace(options.step_trace, trace, trace.critical_path());
  }
  return {trace.operations().size(),
          trace.busy_ns() * 1e-6,
          trace.critical_path().length_ns * 1e-6,
          minimal_waits(trace)};
}

}  // namespace msstream::training
