// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/serve_options.hpp>
#include <msstream/support/trial_result.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace msstream::support {

/// For a report: how a pool did.
[[nodiscard]] nlohmann::ordered_json report_of(TrialResult const& trial, std::int64_t query_rows);

/// How a loop without a pool did.
struct RawLoopResult {
  double queries_per_s;
  int threads;
};
/// What a program measured besides.
struct ServeComparisons {
  std::optional<TrialResult> baseline = {};
  std::optional<RawLoopResult> raw_loop = {};
};
/// For a report: the ratios too. Adds to `report`, whose "result" is there.
void add_comparisons(nlohmann::ordered_json& report,
                     ServeComparisons const& comparisons,
                     std::int64_t query_rows);

/// For people: what such a report says, as a table and some lines.
[[nodiscard]] std::string serve_summary(nlohmann::ordered_json const& report);

/// "4 replicas, captured; host runtime (no GPU is used)": for the line that a program begins with.
[[nodiscard]] std::string placement_text(ServeOptions const& options);

/// Writes the report where the options say, and prints its summary unless they say not to. Throws
/// std::runtime_error when an answer differed from the lone one.
void conclude(ServeOptions const& options, nlohmann::ordered_json const& report);

}  // namespace msstream::support
