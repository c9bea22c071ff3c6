// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/workspace_layout.hpp"
#include "segment/segment.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// The workspace for the number of rows of each segment, which only reductions that divide by the
/// number need.
struct AtomicSumMemory {
  std::uint32_t* counts = nullptr;  ///< [segments]

  AtomicSumMemory(WorkspaceLayout& workspace, SegmentArgs const& args);
};

/// Computes sums, means or sqrtn of segments by unsorted ids with atomic additions, in any order.
void add_atomically(CudaStream stream, SegmentArgs const& args, AtomicSumMemory const& memory);

/// Computes counts[s] = the number of positions in segment s, for unsorted ids. Equal ids always
/// give equal counts.
void count_places(CudaStream stream, SegmentLayout const& layout, std::uint32_t* counts);

}  // namespace msstream::ops::kernels
