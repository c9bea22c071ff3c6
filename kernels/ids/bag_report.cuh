// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.cuh"
#include "ids/bag_offsets.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// Writes a bag with invalid offsets into the report's IdTrap, which the host reads, if the report
/// has one.
template <class Id>
__device__ void spring_trap(IdReport const& report,
                            BagOffsets<Id> const& offsets,
                            std::int64_t bag) {
  if (report.trap != nullptr) {
    spring_trap(report, Caught{bag, offsets.at[bag], offsets.at[bag + 1], offsets.capacity});
  }
}

/// Reports a bag with invalid offsets: increments the report's count and writes the bag into its
/// IdTrap. Must be called by one thread.
template <class Id>
__device__ void report_bad(IdReport const& report,
                           BagOffsets<Id> const& offsets,
                           std::int64_t bag) {
  if (report.count != nullptr) {
    atomicAdd(reinterpret_cast<unsigned long long*>(report.count), 1ULL);
  }
  spring_trap(report, offsets, bag);
}

}  // namespace msstream::ops::kernels
