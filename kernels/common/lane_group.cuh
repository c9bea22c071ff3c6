// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// The lanes of a warp that work on one row together, and their communication. The groups of one
/// warp diverge, so every exchange is among the lanes of one group.
struct LaneGroup {
  int lanes;
  int lane;
  int first;  ///< lane of the warp at which the group begins
  unsigned mask;

  /// Finds the group of the calling thread. `group_lanes` is a power of two up to 32, the whole
  /// warp.
  explicit __device__ LaneGroup(int group_lanes)
      : lanes(group_lanes),
        lane(static_cast<int>(threadIdx.x) & (lanes - 1)),
        first((static_cast<int>(threadIdx.x) % 32) - lane),
        mask((lanes == 32 ? 0xFFFFFFFFU : (1U << lanes) - 1U) << first) {}

  /// Returns a mask whose bit l is the vote of the group's lane l.
  __device__ unsigned ballot(bool vote) const {
    return (__ballot_sync(mask, vote) & mask) >> first;
  }
  __device__ int from_lane(int value, int source) const {
    return __shfl_sync(mask, value, source, lanes);
  }

  /// Returns the first number of [low, high) for which `holds` is false, or `high`. `holds` must be
  /// true for a prefix. Each round tests as many numbers as there are lanes, and takes as long as
  /// one round of a binary search.
  template <class Holds>
  __device__ std::int64_t first_not(std::int64_t low, std::int64_t high, Holds const& holds) const {
    int const log2_pieces = max(__ffs(lanes) - 1, 1);
    while (low < high) {
      auto const step = ((high - low) >> log2_pieces) + 1;
      auto const probe = low + (lane + 1) * step - 1;
      auto const passed = __popc(ballot(probe < high && holds(probe)));
      low += passed * step;
      if (passed < lanes) {
        high = min(high, low + step - 1);
      }
    }
    return low;
  }
};

}  // namespace msstream::ops::kernels
