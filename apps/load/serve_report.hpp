// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/serve_options.hpp"
#include "load/trial_result.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace msstream::load {

/// Returns the measurements of a pool in a load test as JSON, for a report.
[[nodiscard]] nlohmann::ordered_json report_of(TrialResult const& trial, std::int64_t query_rows);

/// The result of a serving loop written by hand, without a pool.
struct RawLoopResult {
  double queries_per_s;
  int threads;
};
/// The results of other ways to serve, with which a program compares its pool.
struct ServeComparisons {
  std::optional<TrialResult> baseline = {};
  std::optional<RawLoopResult> raw_loop = {};
};
/// Adds the comparisons and their ratios to `report`, which must already have "result".
void add_comparisons(nlohmann::ordered_json& report,
                     ServeComparisons const& comparisons,
                     std::int64_t query_rows);

/// Returns the summary of a report for people to read: a table and some lines.
[[nodiscard]] std::string serve_summary(nlohmann::ordered_json const& report);

/// Returns text for the first line of a program, such as "4 replicas, captured; host runtime (no
/// GPU is used)".
[[nodiscard]] std::string placement_text(ServeOptions const& options);

/// Writes the report to the file that the options name, and prints its summary unless they choose
/// quiet. Throws std::runtime_error if an answer differs from the model's answer to the query
/// alone.
void conclude(ServeOptions const& options, nlohmann::ordered_json const& report);

}  // namespace msstream::load
