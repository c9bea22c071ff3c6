// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/load_measures.hpp>
#include <msstream/support/memory_taken.hpp>

#include <cstdint>
#include <optional>

namespace msstream::support {

/// What a pool took, in bytes.
struct ServeMemory {
  std::int64_t weights = 0;  ///< of one set
  /// What making the pool added, a replica: weights and captured steps of its own, too.
  MemoryTaken replica = {};
  std::int64_t reserved = 0;  ///< had from the driver by the allocator at most, in all
};

/// How a pool did under a load.
struct TrialResult {
  LoadResult load = {};
  double rate = 0;                                 ///< at which an open load was to arrive; else 0
  std::optional<double> peak_queries_per_s = {};   ///< of a closed load on the same pool
  std::optional<serve::LatencySummary> lone = {};  ///< of one query at a time, on the same pool
  ServeMemory memory = {};
  QueryCost cost = {};
  serve::PoolCounts pool = {};       ///< from its making until after the load
  serve::LatencySummary swaps = {};  ///< those during the load

  /// Operations on the device, on average, by Little's law with the time that each takes alone.
  [[nodiscard]] double kernels_in_flight() const noexcept {
    return cost.device_ns * 1e-9 * load.queries_per_s();
  }
  /// Nothing was launched operation by operation.
  [[nodiscard]] bool captured() const noexcept {
    return pool.captured_steps > 0 && pool.failed_captures == 0;
  }
};

}  // namespace msstream::support
