// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "contender.hpp"
#include "trace.hpp"

#include <optional>
#include <string>
#include <vector>

namespace benchmarks::workloads {

struct MakespanPlan {
  int threads;     ///< number of threads; each has its own stream
  int iterations;  ///< number per thread, each {allocate, write, check, free}
  int repeats;
  SizeMix sizes;
  std::size_t limit_bytes;        ///< 0: none. A limit excludes allocators that support none
  std::chrono::nanoseconds busy;  ///< device time of both pieces of work together
  std::uint64_t seed;

  [[nodiscard]] double ideal_ms() const {
    return std::chrono::duration<double, std::milli>(busy).count() * iterations;
  }
};

struct Makespan {
  std::string entrant;
  std::vector<double> ms;     ///< duration of each repeat
  std::vector<double> ratio;  ///< to the preallocated entrant in each repeat; empty if this is one
  std::uint64_t refused = 0;  ///< allocations that found no memory
  Account account;            ///< measurements, summed over all repeats and the warm-up
  double iterations = 0;      ///< iterations of all threads, in all repeats and the warm-up
};

/// Measures, for each allocator, the time from the moment that all threads may start until the
/// device is done. The allocators alternate within every repeat, so that anything that slows the
/// machine affects all of them. Before the first repeat, each runs a quarter of the work as a
/// warm-up.
[[nodiscard]] std::vector<Makespan> measure_makespans(std::vector<Entrant> const& entrants,
                                                      MakespanPlan const& plan);

}  // namespace benchmarks::workloads
