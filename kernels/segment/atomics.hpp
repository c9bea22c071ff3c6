// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/workspace_layout.hpp"
#include "segment/segment.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// The memory for the number of rows of each segment, which only reductions that divide by it need.
struct AtomicSumMemory {
  std::uint32_t* counts = nullptr;  ///< [segments]

  AtomicSumMemory(WorkspaceLayout& workspace, SegmentArgs const& args);
};

/// Computes sums, means and sqrtn of unsorted ids with atomic additions, in any order.
void add_atomically(CudaStream stream, SegmentArgs const& args, AtomicSumMemory const& memory);

/// Computes counts[s] = the number of positions in segment s of unsorted ids. The same ids always
/// give the same counts.
void count_places(CudaStream stream, SegmentLayout const& layout, std::uint32_t* counts);

}  // namespace msstream::ops::kernels
