// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "workspace_layout.hpp"

#include <msstream/ops/kernels/segment.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Rows of each segment, for reductions that divide by them; none for a sum.
struct AtomicSumMemory {
  std::uint32_t* counts = nullptr;  ///< [segments]

  AtomicSumMemory(WorkspaceLayout& workspace, SegmentArgs const& args);
};

/// Sums, means and sqrtn of unsorted ids, added atomically: in any order.
void add_atomically(CudaStream stream, SegmentArgs const& args, AtomicSumMemory const& memory);

/// counts[s] = places in segment s of unsorted ids; the same for the same ids.
void count_places(CudaStream stream, SegmentLayout const& layout, std::uint32_t* counts);

}  // namespace msstream::ops::kernels
