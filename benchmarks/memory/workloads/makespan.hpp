// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "contender.hpp"
#include "trace.hpp"

#include <optional>
#include <string>
#include <vector>

namespace benchmarks::workloads {

struct MakespanPlan {
  int threads;     ///< each with a stream of its own
  int iterations;  ///< of {allocate, write, check, free} a thread
  int repeats;
  SizeMix sizes;
  std::size_t limit_bytes;  ///< 0: none; then only those enter that take one, or allocate nothing
  std::chrono::nanoseconds busy;  ///< of both pieces of work together
  std::uint64_t seed;

  [[nodiscard]] double ideal_ms() const {
    return std::chrono::duration<double, std::milli>(busy).count() * iterations;
  }
};

struct Makespan {
  std::string entrant;
  std::vector<double> ms;  ///< of each repeat
  std::vector<double>
      ratio;  ///< to the entrant's preallocated one in the same repeat; empty: it is one
  std::uint64_t refused = 0;  ///< allocations that found no memory
  Account account;            ///< of all repeats, and the warming up
  double iterations = 0;      ///< of all threads in all of these
};

/// From the moment that all threads may start until the device is done. The entrants take turns in
/// every repeat, so that whatever slows the machine meets all; before the first one each has a
/// quarter of the work to warm up.
[[nodiscard]] std::vector<Makespan> measure_makespans(std::vector<Entrant> const& entrants,
                                                      MakespanPlan const& plan);

}  // namespace benchmarks::workloads
