// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "makespan.hpp"
#include "replay.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace benchmarks::workloads {

/// How one entrant did on one trace.
struct TraceResult {
  std::string entrant;
  bool allocates;
  Replay replay;
  std::optional<double> smallest_limit;  ///< over live; empty: not looked for, or none
};

/// Prints tables as the results come, and keeps all numbers.
class Report {
 public:
  Report(Arena const& arena, std::string const& commit, bool quick);

  static void explain_trace();
  void add_trace(TraceShape const& shape,
                 Trace const& trace,
                 double limit_factor,
                 std::vector<TraceResult> const& results);
  static void explain_makespan();
  void add_makespans(MakespanPlan const& plan, std::vector<Makespan> const& makespans);

  [[nodiscard]] nlohmann::ordered_json const& json() const noexcept { return json_; }
  /// Of msstream's entrants: anything but 0 is a race. The others' are in the tables.
  [[nodiscard]] std::uint64_t our_wrong_tags() const noexcept { return our_wrong_tags_; }

 private:
  nlohmann::ordered_json json_;
  std::uint64_t our_wrong_tags_ = 0;
};

}  // namespace benchmarks::workloads
