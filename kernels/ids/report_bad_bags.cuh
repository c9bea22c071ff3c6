// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "ids/bag_offsets.hpp"
#include "ids/bag_report.cuh"

#include <msstream/runtime/stream_ref.hpp>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

inline constexpr int kReportThreads = 256;

template <class Id>
__global__ void __launch_bounds__(kReportThreads)
    report_bad_bags_kernel(BagOffsets<Id> const offsets, IdReport report) {
  for (auto bag = grid_thread(); bag < offsets.bags; bag += grid_stride()) {
    if (offsets.is_bad(bag)) {
      report_bad(report, offsets, bag);
    }
  }
}

/// Reports the bags with invalid offsets of an operation that has nothing to compute, if the report
/// has a counter or an IdTrap.
template <class Id>
void report_bad_bags(CudaStream stream,
                     char const* operation,
                     BagOffsets<Id> const& offsets,
                     IdReport const& report) {
  if (offsets.bags == 0 || (report.count == nullptr && report.trap == nullptr)) {
    return;
  }
  constexpr std::int64_t kMostBlocks = 1024;
  auto const blocks = std::min(kMostBlocks, ceil_div<std::int64_t>(offsets.bags, kReportThreads));
  report_bad_bags_kernel<<<static_cast<unsigned>(blocks), kReportThreads, 0, stream>>>(offsets,
                                                                                       report);
  check_launch(operation);
}

}  // namespace msstream::ops::kernels
