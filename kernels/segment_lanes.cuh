// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// The lanes of a warp that work on one row together, and what they tell each other. Groups of one
/// warp go different ways: every exchange is among the lanes of the group alone.
struct LaneGroup {
  int lanes;
  int lane;
  int first;  ///< lane of the warp
  unsigned mask;

  /// `group_lanes`: a power of two up to 32, the whole warp.
  explicit __device__ LaneGroup(int group_lanes)
      : lanes(group_lanes),
        lane(static_cast<int>(threadIdx.x) & (lanes - 1)),
        first((static_cast<int>(threadIdx.x) % 32) - lane),
        mask((lanes == 32 ? 0xFFFFFFFFU : (1U << lanes) - 1U) << first) {}

  /// Bit l: what lane l says.
  __device__ unsigned ballot(bool vote) const {
    return (__ballot_sync(mask, vote) & mask) >> first;
  }
  __device__ int from_lane(int value, int source) const {
    return __shfl_sync(mask, value, source, lanes);
  }

  /// The first of [low, high) for which `holds` does not hold, or high; it holds for a prefix. Each
  /// round asks as many as there are lanes, and takes as long as one of a binary search.
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
