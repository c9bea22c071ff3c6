// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_offsets.hpp"
#include "segment_lanes.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

/// offsets.candidate_for(place), by a group of lanes: they look at the judges of several levels of
/// the search at once, because each look waits for the one before.
template <class Id>
__device__ std::int64_t candidate_for(LaneGroup const& group,
                                      BagOffsets<Id> const& offsets,
                                      std::int64_t place) {
  if (group.lanes == 1) {
    return offsets.candidate_for(place);
  }
  int const levels = __ffs(group.lanes) - 1;
  int level = 0;
  while ((offsets.bags >> level) > 0) {
    level += levels;
  }
  std::int64_t found = 0;
  for (level -= levels; level >= 0; level -= levels) {
    auto const border = found + (std::int64_t{group.lane} << level);
    bool const is_not_above =
        group.lane > 0 && border <= offsets.bags && offsets.judge(border) <= place;
    unsigned const not_above = group.ballot(is_not_above);
    int step = 0;
    for (int half = group.lanes / 2; half > 0; half /= 2) {
      step += (not_above >> (step + half) & 1U) != 0 ? half : 0;
    }
    found += std::int64_t{step} << level;
  }
  return found;
}

/// The places of a bag, or that it is bad.
struct BagPlaces {
  PlaceRange places;
  bool is_bad;
};

/// The places of a bag of a group of `lanes` lanes, `lane` of which calls, if it `exists`: the
/// lanes look at a judge each. To be called by all lanes of a warp, whose groups have bags of their
/// own.
template <class Id>
__device__ BagPlaces
places_by_lanes(BagOffsets<Id> const& offsets, std::int64_t bag, bool exists, int lane, int lanes) {
  std::int64_t const begin = exists ? offsets.at[bag] : Id{0};
  std::int64_t const end = exists ? offsets.at[bag + 1] : Id{0};
  bool const agrees = !exists || (begin >= 0 && begin <= end && end <= offsets.capacity &&
                                  offsets.agrees_at_once(bag, begin, end, lane, lanes));
  unsigned const agreeing = __ballot_sync(0xFFFFFFFFU, agrees);
  unsigned const group = (lanes == 32 ? 0xFFFFFFFFU : (1U << lanes) - 1U)
                         << (static_cast<int>(threadIdx.x) % 32 - lane);
  if ((agreeing & group) != group && offsets.is_bad(bag)) {
    return {{0, 0}, true};
  }
  return {{begin, end}, false};
}

}  // namespace msstream::ops::kernels
