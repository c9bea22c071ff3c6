// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/load_measures.hpp"
#include "load/memory_taken.hpp"

#include <cstdint>
#include <optional>

namespace msstream::load {

/// The memory that a pool uses, in bytes.
struct ServeMemory {
  std::int64_t weights = 0;  ///< bytes of one set of weights
  /// The memory that constructing the pool added, divided by its replicas. It includes weights and
  /// captured steps that each replica has of its own.
  MemoryTaken replica = {};
  std::int64_t reserved = 0;  ///< largest amount that the allocator had from the driver
};

/// The measurements of a pool in one load test.
struct TrialResult {
  LoadResult load = {};
  double rate = 0;                                ///< planned rate of an open load; otherwise 0
  std::optional<double> peak_queries_per_s = {};  ///< from a closed load on the same pool
  std::optional<serve::LatencyHistogram::Summary> lone =
      {};  ///< one query at a time, on the same pool
  ServeMemory memory = {};
  QueryCost cost = {};
  serve::PoolCounts pool = {};                  ///< since its construction, until after the test
  serve::LatencyHistogram::Summary swaps = {};  ///< durations of swaps of weights in the test

  /// Returns the mean number of operations on the device at a time, by Little's law from the time
  /// that the operations of a query take alone.
  [[nodiscard]] double kernels_in_flight() const noexcept {
    return cost.device_ns * 1e-9 * load.queries_per_s();
  }
  /// Returns whether all launches were captured steps, and none issued operations one by one.
  [[nodiscard]] bool captured() const noexcept {
    return pool.captured_steps > 0 && pool.failed_captures == 0;
  }
};

}  // namespace msstream::load
