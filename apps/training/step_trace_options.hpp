// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"
#include "training/rank_options.hpp"

#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/step_trace.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <filesystem>
#include <string>

/// The command-line options for tracing a step, which training programs share.
namespace msstream::training {

/// The choice of what a program tells about the order of the operations of a step.
struct StepTraceOptions {
  bool waits = false;
  std::string step_trace;

  /// Returns whether a step is traced on the stream groups of the training, for its waits or for a
  /// file.
  [[nodiscard]] bool records_step() const { return waits || !step_trace.empty(); }
  /// Returns whether the trace of a step is drawn, which needs the times of operations as they
  /// overlap, and not of each alone.
  [[nodiscard]] bool draws_step() const { return step_trace.ends_with(".svg"); }
};

/// The results of tracing a training step.
struct TracedStep {
  std::size_t operations;
  double busy_ms;
  double critical_path_ms;
  StepWaits waits;
};

/// Adds --waits and --step-trace, under the title that was set last.
void add_options(cli::Options& options, StepTraceOptions& chosen);
/// Throws UsageError unless the name of the file ends as one of the formats.
void check_step_trace(StepTraceOptions const& chosen);
/// Throws UsageError if a step is to be traced and there are several ranks. Call check_ranks()
/// before.
void check_with_ranks(StepTraceOptions const& chosen, RankOptions const& ranks);

/// Writes the trace in the format of the path's extension: `.json`, `.dot` or `.svg`. If writing
/// fails, the program continues, and reports the failure at the end.
void write_step_trace(std::filesystem::path const& path,
                      StepTrace const& trace,
                      StepTrace::CriticalPath const& critical);

/// Returns the results as JSON, for a program's report.
[[nodiscard]] nlohmann::ordered_json describe(TracedStep const& traced);
/// Returns a line for people to read, from what describe() returned.
[[nodiscard]] std::string traced_step_line(nlohmann::ordered_json const& described);

}  // namespace msstream::training
