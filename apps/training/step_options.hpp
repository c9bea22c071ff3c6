// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/outputs.hpp"
#include "cli/stream_options.hpp"
#include "training/dashboard_option.hpp"
#include "training/float16_options.hpp"
#include "training/rank_options.hpp"
#include "training/step_setting.hpp"
#include "training/step_trace_options.hpp"
#include "training/update_options.hpp"

#include <msstream/step/loss_scale.hpp>
#include <msstream/step/two_stage.hpp>
#include <msstream/stream/stream_assignment.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msstream::training {

/// The options that all programs share that train a model step by step, with their defaults.
struct StepOptions : cli::StreamOptions,
                     UpdateOptions,
                     DashboardOption,
                     StepTraceOptions,
                     Float16Options {
  bool tf32 = false;
  std::optional<Staleness> staleness = {};       ///< of steps in two stages
  std::optional<LossScaleOptions> scaling = {};  ///< of the loss of a model in float16
  OptimizerOptions::Rounding table_rounding =
      OptimizerOptions::Rounding::nearest;  ///< of tables in half precision
  Precision copies = Precision::fp32;       ///< of dense parameters
  bool capture = false;
  std::string assignment;  ///< path of an assignment of stream groups, or `auto`
  std::string save_assignment;
  std::int64_t steps = 0;  ///< number of steps; 0: to the end of the data
  std::uint64_t seed = 1;
  std::string trace;
  bool is_traced_by_others = false;  ///< whether another rank writes --trace
  std::string overlap;
  std::string report;
  bool quiet = false;

  /// Returns whether the stream groups are chosen from the trace of a step.
  [[nodiscard]] bool chooses_groups() const { return assignment == "auto"; }
  /// Returns whether a step is recorded for --trace, of this rank or of another one. All ranks
  /// issue it eagerly.
  [[nodiscard]] bool traces_step() const { return is_traced_by_others || !trace.empty(); }
  /// Makes this rank print and write nothing, as those but rank 0 do.
  void silence();
  [[nodiscard]] StepSetting setting() const;
  [[nodiscard]] ops::OptimizerRule rule() const {
    return {.kind = optimizer, .learning_rate = learning_rate};
  }
  /// Returns the assignment of stream groups in the file that the options or the environment name,
  /// if there is one. Throws UsageError if it cannot be read.
  [[nodiscard]] std::optional<StreamAssignment> read_assignment() const;
};

/// Adds the options of a training, under titles of their own.
void add_options(cli::Options& options, StepOptions& chosen);

/// Reads the library's environment variables: stores those that have an option, and checks the
/// others. Throws UsageError for a bad value.
void read_library_variables(StepOptions& chosen);
/// Checks the options of a training. Throws UsageError for values that contradict each other or the
/// build, for an assignment that cannot be read, and for an output that cannot be written or is
/// also an input. `inputs` are the other files that the program reads, `outputs` those that it
/// writes.
void check(StepOptions const& chosen,
           std::vector<cli::InputOption> inputs = {},
           std::vector<cli::OutputOption> outputs = {});

/// Throws UsageError for options that several ranks do not have. Call check_ranks() before.
void check_with_ranks(StepOptions const& chosen, RankOptions const& ranks);

/// Returns the options as JSON, for a program's report.
[[nodiscard]] nlohmann::ordered_json describe(StepOptions const& chosen);

}  // namespace msstream::training
