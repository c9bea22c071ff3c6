// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "contender.hpp"
#include "trace.hpp"

#include <optional>

namespace benchmarks::workloads {

struct Replay {
  bool completed;  ///< false: an allocation found no memory
  Account account;
  double operations;
};

/// One thread issues the whole trace, as fast as it can.
[[nodiscard]] Replay replay(Trace const& trace, Entrant const& entrant, Task const& task);

/// The smallest limit with which the trace completes, over its peak of live bytes: to 0.01 with
/// nine tries. Empty: none that is small does.
[[nodiscard]] std::optional<double> smallest_limit(Trace const& trace,
                                                   Entrant const& entrant,
                                                   Task const& task,
                                                   int tries);

}  // namespace benchmarks::workloads
