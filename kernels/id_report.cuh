// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_offsets.hpp"

#include <msstream/ops/kernels/id_policy.hpp>

#include <cuda_runtime.h>

#include <cstdint>

namespace msstream::ops::kernels {

/// The first thread to claim the trap fills it; the host sees the fields before it sees set == 1.
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
/// Of a bad bag, if the report has a trap.
template <class Id>
__device__ void spring_trap(IdReport const& report,
                            BagOffsets<Id> const& offsets,
                            std::int64_t bag) {
  if (report.trap != nullptr) {
    spring_trap(report, Caught{bag, offsets.at[bag], offsets.at[bag + 1], offsets.capacity});
  }
}

/// The ids outside [0, rows) that one thread has met, for report_out_of_range(), and bad bags.
struct OutOfRangeIds {
  unsigned count = 0;
  unsigned bags = 0;
  std::int64_t first = 0;

  __device__ void add(std::int64_t id) {
    if (count++ == 0) {
      first = id;
    }
  }
  template <class Id>
  __device__ void add(IdReport const& report, BagOffsets<Id> const& offsets, std::int64_t bag) {
    if (bags++ == 0) {
      spring_trap(report, offsets, bag);
    }
  }
};

/// The same for count_out_of_range(): springs the trap at once, so that how many there are is all
/// that a kernel short of registers has to keep.
struct OutOfRangeCount {
  unsigned count = 0;

  /// `args`: of a kernel, with its report and rows.
  template <class Args>
  __device__ void add(Args const& args, std::int64_t id) {
    if (count++ == 0 && args.report.trap != nullptr) {
      spring_trap(args.report, id, args.rows);
    }
  }
  /// A bad bag.
  template <class Args, class Id>
  __device__ void add(Args const& args, BagOffsets<Id> const& offsets, std::int64_t bag) {
    ++count;
    spring_trap(args.report, offsets, bag);
  }
};

/// Reports a bad bag, by one thread.
template <class Id>
__device__ void report_bad(IdReport const& report,
                           BagOffsets<Id> const& offsets,
                           std::int64_t bag) {
  if (report.count != nullptr) {
    atomicAdd(reinterpret_cast<unsigned long long*>(report.count), 1ULL);
  }
  spring_trap(report, offsets, bag);
}

/// To be called by all lanes of a warp: one atomic addition a warp, none where all ids are good.
/// Whether any was bad.
__device__ inline bool count_out_of_range(IdReport const& report, unsigned ids) {
  unsigned const total = __reduce_add_sync(0xFFFFFFFFU, ids);
  if (total != 0 && report.count != nullptr && threadIdx.x % warpSize == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(report.count), total);
  }
  return total != 0;
}

/// The same, and springs the trap.
__device__ inline void report_out_of_range(IdReport const& report,
                                           OutOfRangeIds const& ids,
                                           std::int64_t rows) {
  if (count_out_of_range(report, ids.count + ids.bags) && report.trap != nullptr && ids.count > 0) {
    spring_trap(report, ids.first, rows);
  }
}

}  // namespace msstream::ops::kernels
