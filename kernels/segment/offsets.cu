// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/lane_group.cuh"
#include "common/launch.cuh"
#include "segment/math.hpp"
#include "segment/segment.hpp"

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;

/// Computes kThreads neighbouring offsets of segments in each block, which first finds the range of
/// ids that these offsets lie in. Each thread then searches only among these ids, mostly in the
/// cache, so that neither a long segment nor a gap between ids costs time.
__global__ void __launch_bounds__(kThreads) segment_offsets_kernel(SegmentOffsetsArgs args) {
  __shared__ std::int64_t borders[2];
  auto const first = std::int64_t{blockIdx.x} * kThreads;
  auto const last = min(first + kThreads - 1, args.layout.segments);
  if (threadIdx.x < 64) {
    bool const is_first = threadIdx.x < 32;
    LaneGroup const warp(32);
    auto const border = warp.first_not(0, existing_places(args.layout), [&](std::int64_t place) {
      return segment_id(args.layout, place) < (is_first ? first : last);
    });
    if (warp.lane == 0) {
      borders[is_first ? 0 : 1] = border;
    }
  }
  __syncthreads();
  auto const segment = first + threadIdx.x;
  if (segment > args.layout.segments) {
    return;
  }
  auto low = borders[0];
  auto high = borders[1];
  while (low < high) {
    auto const middle = low + (high - low) / 2;
    if (segment_id(args.layout, middle) < segment) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  args.offsets[segment] = low;
}

}  // namespace

void segment_offsets(CudaStream stream, SegmentOffsetsArgs const& args) {
  segment_offsets_kernel<<<grid_for(args.layout.segments + 1, kThreads), kThreads, 0, stream>>>(
      args);
  check_launch("segment_offsets");
}

}  // namespace msstream::ops::kernels
