// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/outputs.hpp"
#include "cli/stream_options.hpp"
#include "training/step_setting.hpp"
#include "training/update_options.hpp"

#include <msstream/step/step_trace.hpp>
#include <msstream/stream/stream_assignment.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace msstream::training {

/// The options that all programs share that train a model step by step, with their defaults.
struct StepOptions : cli::StreamOptions, UpdateOptions {
  bool tf32 = false;
  bool capture = false;
  std::string assignment;  ///< a file, or `auto`
  std::string save_assignment;
  std::int64_t steps = 0;  ///< number of steps; 0: to the end of the data
  std::uint64_t seed = 1;
  bool waits = false;
  std::string step_trace;
  std::string trace;
  std::string report;
  bool quiet = false;

  /// Returns whether groups are chosen from the trace of a step.
  [[nodiscard]] bool chooses_groups() const { return assignment == "auto"; }
  /// Returns whether a step is traced on the groups of the training.
  [[nodiscard]] bool records_step() const { return waits || !step_trace.empty(); }
  /// Returns whether the trace is drawn, which needs the times of operations as they overlap, and
  /// not of each alone.
  [[nodiscard]] bool draws_step() const { return step_trace.ends_with(".svg"); }
  [[nodiscard]] StepSetting setting() const;
  [[nodiscard]] ops::OptimizerRule rule() const {
    return {.kind = optimizer, .learning_rate = learning_rate};
  }
  /// Returns the assignment in the file that the options or the environment name, if there is one.
  /// Throws UsageError.
  [[nodiscard]] std::optional<StreamAssignment> read_assignment() const;
};

/// Adds the options under titles of their own. The `examples` of a program's help may name them.
void add_options(cli::Options& options, StepOptions& chosen);

/// Reads the environment variables of the library that stand for options. Throws UsageError.
void read_library_variables(StepOptions& chosen);
/// Checks the options. Throws UsageError for values that contradict each other or the build, for an
/// assignment that cannot be read, and like check_outputs(). `inputs` are the other files that the
/// program reads.
void check(StepOptions const& chosen, std::vector<cli::InputOption> inputs = {});

/// Returns the options as a report shows them.
[[nodiscard]] nlohmann::ordered_json describe(StepOptions const& chosen);

/// Writes the trace in the format of the path's extension: `.json`, `.dot` or `.svg`. A failure is
/// handled like that of any output: see outputs.hpp.
void write_step_trace(std::filesystem::path const& path,
                      StepTrace const& trace,
                      StepTrace::CriticalPath const& critical);

}  // namespace msstream::training
