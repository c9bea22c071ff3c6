// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/step_options.hpp"
#include "training/step_trace_options.hpp"
#include "training/tried_groups.hpp"

#include <msstream/memory/statistics.hpp>
#include <msstream/stream/wait_counts.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msstream::training {

/// The times of a step that auto_assignment() predicts, in ms.
struct PredictedStep {
  double chosen_ms;
  double one_group_ms;
  double recorded_ms;
};

/// The measurements of a training.
struct StepMeasurements {
  std::vector<float> losses;
  std::vector<double> step_ms;  ///< time from one loss to the next, without the first steps
  bool captured = false;
  std::uint64_t operations = 0;
  WaitCounts waits = {};
  MemoryStatistics memory = {};
  std::optional<float> loss_scale = {};  ///< of the next step, if the loss is scaled
  std::int64_t skipped_steps = 0;        ///< of a scaled loss, because of an overflow
  /// What --find-overflow has found, as JSON null if that is nothing; no value without the option.
  std::optional<nlohmann::ordered_json> first_overflow = {};
  /// Waits between streams in a captured step; null for steps of several graphs.
  std::optional<std::uint64_t> waits_in_graph = {};
  std::optional<PredictedStep> predicted = {};
  std::optional<TriedGroups> tried = {};
  std::optional<TracedStep> traced = {};
};

/// Returns the options and the measurements of a training as JSON, for a report.
[[nodiscard]] nlohmann::ordered_json report_of(StepOptions const& options,
                                               StepMeasurements const& measured);

/// Returns the summary of a report for people to read, in a few lines.
[[nodiscard]] std::string summary_of(nlohmann::ordered_json const& report);

/// Returns text for the first line of a program, such as "4 stream groups; host runtime (no GPU is
/// used)".
[[nodiscard]] std::string placement_text(StepOptions const& options);

/// Writes the report to the file that the options name, and prints its summary unless they choose
/// quiet.
void conclude(StepOptions const& options, nlohmann::ordered_json const& report);

}  // namespace msstream::training
