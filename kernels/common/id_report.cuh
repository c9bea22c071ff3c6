// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"
#include "common/warp_reduce.cuh"

#include <cuda_runtime.h>

#include <cstdint>

namespace msstream::ops::kernels {

/// Writes a bad id or bag into the IdTrap that the host reads, if the calling thread is the first
/// to claim the trap. The host sees the fields before it sees set == 1.
__device__ inline void spring_trap(IdReport const& report, Caught const& caught) {
  IdTrap volatile* const trap = report.trap;
  if (trap->set != 0 || atomicCAS(&report.trap->set, 0U, 2U) != 0U) {
    return;
  }
  trap->operation = report.operation;
  trap->caught.bag = caught.bag;
  trap->caught.id = caught.id;
  trap->caught.end = caught.end;
  trap->caught.rows = caught.rows;
  __threadfence_system();
  trap->set = 1;
}
__device__ inline void spring_trap(IdReport const& report, std::int64_t id, std::int64_t rows) {
  spring_trap(report, Caught{-1, id, 0, rows});
}

/// The number of ids outside [0, rows) that one thread has met and the first of them, for
/// report_out_of_range().
struct OutOfRangeIds {
  unsigned count = 0;
  std::int64_t first = 0;

  __device__ void add(std::int64_t id) {
    if (count++ == 0) {
      first = id;
    }
  }
};

/// Adds the number of bad ids to the report, by one atomic addition per warp, or none if all ids
/// are good. Returns whether any id was bad. All lanes of a warp must call count_out_of_range()
/// together.
__device__ inline bool count_out_of_range(IdReport const& report, unsigned ids) {
  unsigned const total = warp_sum(ids);
  if (total != 0 && report.count != nullptr && threadIdx.x % warpSize == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(report.count), total);
  }
  return total != 0;
}

/// Adds the number of bad ids of a warp to the report, like count_out_of_range(), and writes the
/// first bad id into the IdTrap that the host reads. `table` is the number of the ids' table among
/// several.
__device__ inline void report_out_of_range(IdReport const& report,
                                           OutOfRangeIds const& ids,
                                           std::int64_t rows,
                                           int table = -1) {
  if (count_out_of_range(report, ids.count) && report.trap != nullptr && ids.count > 0) {
    spring_trap(report, Caught{-1, ids.first, table + 1, rows});
  }
}

}  // namespace msstream::ops::kernels
