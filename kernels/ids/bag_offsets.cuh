// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/lane_group.cuh"
#include "ids/bag_offsets.hpp"
#include "ids/bag_report.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

/// Returns the only bag that may contain a position, as BagOffsets::candidate_for() does, computed
/// by a group of lanes. The lanes read the offsets of several search levels at once, because the
/// load of each level depends on the one before.
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

/// Returns whether thread `thread` of `threads` finds no error in its share of the checks of the
/// bags [first, last], at least one bag. If every thread returns true, all bags of the range have
/// valid offsets. The threads share the comparisons with the judging offsets (see BagOffsets),
/// which otherwise cost each bag's thread a logarithmic number of loads. No load depends on
/// another.
template <class Id>
__device__ bool looks_good(
    BagOffsets<Id> const& offsets, std::int64_t first, std::int64_t last, int thread, int threads) {
  if (threads == 1 && first == last) {
    return !offsets.is_bad(first);
  }
  bool good = true;
#pragma unroll 1
  for (std::int64_t number = thread; first + number <= last || offsets.has_judge(number);
       number += threads) {
    good = good & offsets.passes(first, last, number);
  }
  return good;
}

/// Returns whether a bag that failed a quick check has invalid offsets, and if so, reports the bag
/// if `reports` is true. Not inlined and with arguments by value, so that the rare case costs the
/// caller no registers.
template <class Id>
__device__ __noinline__ bool is_bad_and_reported(BagOffsets<Id> offsets,
                                                 std::int64_t bag,
                                                 IdReport report,
                                                 bool reports) {
  bool const is_bad = offsets.is_bad(bag);
  if (is_bad && reports) {
    report_bad(report, offsets, bag);
  }
  return is_bad;
}

/// Returns the positions of a bag's ids, computed by a group of `lanes` lanes, of which `lane` is
/// the caller. Returns no positions if the bag does not exist or has invalid offsets; invalid
/// offsets are reported if `reports` is true. Each lane compares the bag with different judging
/// offsets (see BagOffsets). All lanes of a warp must call places_by_lanes() together; each group
/// has its own bag.
template <class Id>
__device__ PlaceRange places_by_lanes(BagOffsets<Id> const& offsets,
                                      std::int64_t bag,
                                      bool exists,
                                      int lane,
                                      int lanes,
                                      IdReport const& report,
                                      bool reports) {
  auto const begin = exists ? offsets.at[bag] : Id{0};
  auto const end = exists ? offsets.at[bag + 1] : Id{0};
  bool agrees = true;
  if (exists) {
#pragma unroll 1
    for (int judge = lane; offsets.has_judge(judge); judge += lanes) {
      agrees = agrees & offsets.agrees_at_once(bag, begin, end, judge);
    }
  }
  agrees = agrees & (begin >= 0) & (begin <= end) & (end <= offsets.capacity);
  unsigned const group = (lanes == 32 ? 0xFFFFFFFFU : (1U << lanes) - 1U)
                         << (static_cast<int>(threadIdx.x) % 32 - lane);
  bool const all_agree = (~__ballot_sync(0xFFFFFFFFU, agrees) & group) == 0;
  if (!all_agree && is_bad_and_reported(offsets, bag, report, reports && lane == 0)) {
    return {0, 0};
  }
  return {begin, end};
}

}  // namespace msstream::ops::kernels
