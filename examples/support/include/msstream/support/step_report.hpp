// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/statistics.hpp>
#include <msstream/step/step_waits.hpp>
#include <msstream/stream/stream_slot.hpp>
#include <msstream/support/step_options.hpp>
#include <msstream/support/tried_groups.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msstream::support {

/// What auto_assignment() expects of a step, in ms.
struct PredictedStep {
  double chosen_ms;
  double one_group_ms;
  double recorded_ms;
};

/// What the trace of a step says.
struct TracedStep {
  std::size_t operations;
  double busy_ms;
  double critical_path_ms;
  StepWaits waits;
};

/// What a training by steps learns of itself.
struct StepMeasurements {
  std::vector<float> losses;
  std::vector<double> step_ms;  ///< from one loss known to the next, without the first steps
  bool captured = false;
  std::uint64_t operations = 0;
  WaitCounts waits = {};
  MemoryStatistics memory = {};
  std::uint64_t waits_in_graph = 0;  ///< between streams; of a captured step
  std::optional<PredictedStep> predicted = {};
  std::optional<TriedGroups> tried = {};
  std::optional<TracedStep> traced = {};
};

/// For a report: how the training was asked to run, and went.
[[nodiscard]] nlohmann::ordered_json report_of(StepOptions const& options,
                                               StepMeasurements const& measured);

/// For people, of such a report: a line or two.
[[nodiscard]] std::string summary_of(nlohmann::ordered_json const& report);

/// "4 stream groups; host runtime (no GPU is used)": for the line that a program begins with.
[[nodiscard]] std::string placement_text(StepOptions const& options);

/// Writes the report where the options say, and prints its summary unless they say not to.
void conclude(StepOptions const& options, nlohmann::ordered_json const& report);

}  // namespace msstream::support
