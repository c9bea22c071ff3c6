// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wdl_options.hpp"

#include <msstream/support/trial_result.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace serve_wdl {

/// What one setting did on so many replicas.
struct SweepPoint {
  std::string setting;
  int replicas;
  int clients;
  ms::support::TrialResult trial;
};

/// Operations one by one on three streams a replica, and then one option more each time.
[[nodiscard]] std::vector<std::pair<std::string, ms::support::ServeSetting>> sweep_settings(
    ms::support::ServeSetting const& chosen);

/// An array, a point each.
[[nodiscard]] nlohmann::ordered_json report_of_sweep(std::vector<SweepPoint> const& points,
                                                     std::int64_t query_rows);

/// For people: throughput and p99, a line a setting, a column a number of replicas.
[[nodiscard]] std::string sweep_table(nlohmann::ordered_json const& points);

/// Throughput and p99 over the number of replicas, a line a setting.
[[nodiscard]] std::string sweep_svg(nlohmann::ordered_json const& points);

/// Writes the files that the options name, and prints the table unless they say not to. Throws
/// std::runtime_error when an answer differed from the lone one.
void conclude_sweep(WdlOptions const& options, nlohmann::ordered_json const& report);

}  // namespace serve_wdl
