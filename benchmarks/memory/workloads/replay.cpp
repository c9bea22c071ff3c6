// SPDX-License-Identifier: Apache-2.0
#include "replay.hpp"

namespace benchmarks::workloads {

namespace {

// The size of the pages in which an allocator takes memory from the device. A limit is rounded to
// pages.
constexpr std::size_t kPageBytes = std::size_t{2} << 20U;
constexpr double kLeastLimit = 0.98;
constexpr double kMostLimit = 6;

bool carry_out(TraceOperation const& operation, Contender& contender) {
  BlockUse const use{operation.block, operation.bytes, operation.owner, operation.user};
  if (operation.allocates) {
    return contender.allocate_and_write(use);
  }
  contender.check_and_free(use);
  return true;
}

}  // namespace

Replay replay(Trace const& trace, Entrant const& entrant, Task const& task) {
  auto const contender = entrant.enter(task);
  bool completed = true;
  for (auto operation = trace.operations.begin(); completed && operation != trace.operations.end();
       ++operation) {
    completed = carry_out(*operation, *contender);
  }
  contender->synchronize();
  return {completed, contender->account(), static_cast<double>(trace.operations.size())};
}

std::optional<double> smallest_limit(Trace const& trace,
                                     Entrant const& entrant,
                                     Task const& task,
                                     int tries) {
  double too_small = kLeastLimit;
  double enough = kMostLimit;
  bool found = false;
  for (int i = 0; i < tries; ++i) {
    double const limit = (too_small + enough) / 2;
    Task limited = task;
    auto const bytes = static_cast<std::size_t>(limit * static_cast<double>(trace.peak_live_bytes));
    limited.limit_bytes = bytes / kPageBytes * kPageBytes;
    bool const completed = replay(trace, entrant, limited).completed;
    (completed ? enough : too_small) = limit;
    found = found || completed;
  }
  return found ? std::optional(enough) : std::nullopt;
}

}  // namespace benchmarks::workloads
