// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace benchmarks::workloads {

namespace cli = msstream::cli;

enum class RuntimeChoice : std::uint8_t { automatic, host, cuda };

struct WorkloadOptions {
  std::string parts = "B,C";
  RuntimeChoice runtime = RuntimeChoice::automatic;
  bool quick = false;
  std::string json;
  std::string commit;

  // The sizes and counts of a workload. 0 selects a value that fits the runtime; see
  // with_defaults().
  std::int64_t live_mib = 0;
  std::int64_t largest_mib = 0;
  int allocations = 0;
  std::vector<std::uint64_t> seeds{42};
  std::vector<int> streams{8, 1};
  double limit_factor = 0;
  int busy_us = -1;

  int threads = 8;
  int iterations = 0;
  int repeats = 5;
  std::int64_t makespan_limit_mib = 0;
  int makespan_busy_us = 100;

  [[nodiscard]] bool has_part(char part) const { return parts.find(part) != std::string::npos; }
};

/// Parses the options of memory_workloads. Throws cli::UsageError or cli::HelpRequested.
[[nodiscard]] WorkloadOptions parse_options(cli::Arguments const& arguments);

/// Fills in unset options: on a GPU, with the sizes of the table in docs/benchmarks.md; on the host
/// runtime, whose memory is the machine's, with smaller ones.
[[nodiscard]] WorkloadOptions with_defaults(WorkloadOptions options, bool on_gpu);

}  // namespace benchmarks::workloads
