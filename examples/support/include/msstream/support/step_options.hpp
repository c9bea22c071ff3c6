// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/step_trace.hpp>
#include <msstream/stream/stream_assignment.hpp>
#include <msstream/support/outputs.hpp>
#include <msstream/support/step_setting.hpp>
#include <msstream/support/training_options.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace msstream::support {

/// What the programs that train a model step by step have in common; the values are the defaults.
struct StepOptions : StreamOptions, UpdateOptions {
  bool tf32 = false;
  bool capture = false;
  std::string assignment;  ///< a file, or `auto`
  std::string save_assignment;
  std::int64_t steps = 0;  ///< 0: to the end of the data
  std::uint64_t seed = 1;
  bool waits = false;
  std::string step_trace;
  std::string trace;
  std::string report;
  bool quiet = false;

  /// Whether groups are chosen by a step that is traced first.
  [[nodiscard]] bool chooses_groups() const { return assignment == "auto"; }
  /// Whether a step is traced as it will be issued.
  [[nodiscard]] bool records_step() const { return waits || !step_trace.empty(); }
  /// Whether the trace is to look at: of operations beside each other, and not of each alone.
  [[nodiscard]] bool draws_step() const { return step_trace.ends_with(".svg"); }
  [[nodiscard]] StepSetting setting() const;
  [[nodiscard]] ops::OptimizerRule rule() const {
    return {.kind = optimizer, .learning_rate = learning_rate};
  }
  /// What a file, the options' or the environment's, says. Throws UsageError.
  [[nodiscard]] std::optional<StreamAssignment> read_assignment() const;
};

/// Under titles of their own. `examples` of a program's help may name them.
void add_options(Options& options, StepOptions& chosen);

/// The variables of the library that stand for options. Throws UsageError.
void read_library_variables(StepOptions& chosen);
/// Throws UsageError for values that contradict each other or the build, and for an assignment that
/// cannot be read, and as check_outputs(): `inputs` are the files that the program reads besides.
void check(StepOptions const& chosen, std::vector<InputOption> inputs = {});

/// The options as a report shows them.
[[nodiscard]] nlohmann::ordered_json describe(StepOptions const& chosen);

/// Writes the trace as its name's end says: `.json`, `.dot` or `.svg`. An output: see outputs.hpp.
void write_step_trace(std::filesystem::path const& path,
                      StepTrace const& trace,
                      CriticalPath const& critical);

}  // namespace msstream::support
