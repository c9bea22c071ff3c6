// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "makespan.hpp"
#include "replay.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace benchmarks::workloads {

/// The results of one allocator on one trace.
struct TraceResult {
  std::string entrant;
  bool allocates;
  Replay replay;
  std::optional<double>
      smallest_limit;  ///< divided by the live bytes; empty: not searched, or none found
};

/// Prints tables as the results arrive, and keeps all numbers for the JSON report.
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
  /// Returns the number of wrong tags in the memory of msstream's entrants; any value but 0 is a
  /// race. The tables show the wrong tags of the others.
  [[nodiscard]] std::uint64_t our_wrong_tags() const noexcept { return our_wrong_tags_; }

 private:
  nlohmann::ordered_json json_;
  std::uint64_t our_wrong_tags_ = 0;
};

}  // namespace benchmarks::workloads
