// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "contender.hpp"
#include "trace.hpp"

#include <optional>

namespace benchmarks::workloads {

struct Replay {
  bool completed;  ///< false if an allocation found no memory
  Account account;
  double operations;
};

/// Issues the whole trace of allocations and frees from one thread, as fast as the thread can.
[[nodiscard]] Replay replay(Trace const& trace, Entrant const& entrant, Task const& task);

/// Returns the smallest memory limit with which the trace completes, divided by the trace's peak of
/// live bytes. Nine tries give it to 0.01. Empty if the trace completed with no limit that was
/// tried.
[[nodiscard]] std::optional<double> smallest_limit(Trace const& trace,
                                                   Entrant const& entrant,
                                                   Task const& task,
                                                   int tries);

}  // namespace benchmarks::workloads
