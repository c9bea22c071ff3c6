// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// A group of lanes of one warp that work on a row together, with the operations by which the lanes
/// exchange data. The groups of one warp diverge, so every exchange is among the lanes of one
/// group.
struct LaneGroup {
  int lanes;
  int lane;
  int first;  ///< lane of the warp at which the group begins
  unsigned mask;

  /// Determines which group of lanes the calling thread belongs to. `group_lanes` is a power of
  /// two, at most 32 (a whole warp).
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

  /// Returns the first number of [low, high) for which `holds` is false, or `high` if there is
  /// none. `holds` must be true for a prefix of the range. Each round tests as many numbers as the
  /// group has lanes, and takes as long as one round of a binary search.
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
