// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/trial_result.hpp"
#include "wdl_options.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace serve_wdl {

/// The measurements of one load test in a sweep: of one setting, on a number of replicas.
struct SweepPoint {
  std::string setting;
  int replicas;
  int clients;
  ms::load::TrialResult trial;
};

/// Returns the pool settings that a sweep compares, with their names. The first one issues
/// operations one by one on three streams per replica; each further one adds one option.
[[nodiscard]] std::vector<std::pair<std::string, ms::load::ServeSetting>> sweep_settings(
    ms::load::ServeSetting const& chosen);

/// Returns the points of a sweep as a JSON array, with an entry for each point.
[[nodiscard]] nlohmann::ordered_json report_of_sweep(std::vector<SweepPoint> const& points,
                                                     std::int64_t query_rows);

/// Returns tables of throughput and p99 for people: a row for each setting, a column for each
/// number of replicas.
[[nodiscard]] std::string sweep_table(nlohmann::ordered_json const& points);

/// Returns an SVG picture of throughput and p99 over the number of replicas, with a line for each
/// setting.
[[nodiscard]] std::string sweep_svg(nlohmann::ordered_json const& points);

/// Writes a sweep's report and picture to the files that the options name, and prints its table
/// unless they choose quiet. Throws std::runtime_error if an answer differs from the model's answer
/// to the query alone.
void conclude_sweep(WdlOptions const& options, nlohmann::ordered_json const& report);

}  // namespace serve_wdl
