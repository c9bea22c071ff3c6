// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"
#include "bag_offsets.cuh"
#include "segment_lanes.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

/// Segment s has the places [at(s), at(s + 1)), unless it is bad.
struct SegmentBounds {
  std::int64_t const* offsets;
  std::int64_t segments;
  std::int64_t capacity;
  bool are_given;  ///< by a caller, so that segments may be bad, as BagOffsets has it

  __device__ BagOffsets<std::int64_t> judged() const { return {offsets, segments, capacity}; }
  /// Whether the calling lane's segment is bad, where lane l has segment first + l; false for lanes
  /// whose segment is not before `end`. To be called by all lanes of the group.
  __device__ bool is_bad_by_lanes(std::int64_t first,
                                  std::int64_t end,
                                  LaneGroup const& group) const {
    if (!are_given || first >= end) {
      return false;
    }
    auto const last = min(first + group.lanes, end) - 1;
    bool const good = looks_good(judged(), first, last, group.lane, group.lanes);
    return group.ballot(!good) != 0 && first + group.lane <= last &&
           judged().is_bad(first + group.lane);
  }
  __device__ std::int64_t at(std::int64_t border) const { return __ldg(offsets + border); }
  /// Of a segment that is not bad.
  __device__ PlaceRange places_of(std::int64_t segment) const {
    return {at(segment), at(segment + 1)};
  }
  /// Those of [begin, end) that are in a segment, or none. Those of a bad one may be among them.
  __device__ PlaceRange held(std::int64_t begin, std::int64_t end) const {
    auto const all = are_given ? judged().all_places() : PlaceRange{at(0), at(segments)};
    return {max(begin, all.begin), min(end, all.end)};
  }
};

/// Goes with a group of lanes from segment to segment along neighbouring places, and passes any
/// number of empty ones.
///
/// Each lane keeps the end of one of the next segments, and has asked for one of those after: the
/// next segment is found without waiting for memory. Places are relative to an origin. Places
/// between the segments that are not bad are given to the bad ones, which ascend so.
class SegmentCursor {
 public:
  /// Stands in the segment of the first of `places`, which is the origin of relative places, and
  /// nowhere if there are no places. The places must be a result of bounds.held(), so that each has
  /// a segment.
  __device__ SegmentCursor(SegmentBounds const& bounds,
                           LaneGroup const& group,
                           PlaceRange const& places)
      : bounds_(bounds), group_(group), origin_(places.begin), base_(0) {
    if (places.begin < places.end) {
      look_for(0);
      advance(0);
    }
  }

  [[nodiscard]] __device__ std::int64_t segment() const { return base_ + lane_; }
  [[nodiscard]] __device__ bool is_bad() const { return end_ % 2 != 0; }
  [[nodiscard]] __device__ int end() const { return end_ / 2; }
  /// Whether the segment begins before the origin.
  [[nodiscard]] __device__ bool begins_before() const {
    auto const begin = is_bad() ? bounds_.judged().ascending(segment()) : bounds_.at(segment());
    return begin < origin_;
  }

  /// To the segment of `place`, which is not before the one it stands in, and before the end of the
  /// places: behind them no segment would ever be found.
  __device__ void advance(int place) {
    for (int passed = 0;; ++passed) {
      auto const later = group_.ballot(ends_ > 2 * place + 1);
      if (later != 0) {
        lane_ = __ffs(static_cast<int>(later)) - 1;
        end_ = group_.from_lane(ends_, lane_);
        return;
      }
      if (passed < kWindowsPassed) {
        base_ += group_.lanes;
        ends_ = next_ends_;
        next_ends_ = ends_from(base_ + group_.lanes);
      } else {
        base_ += group_.lanes;
        look_for(place);
      }
    }
  }

 private:
  static constexpr int kWindowsPassed = 3;  ///< then a search is faster
  static constexpr int kFar = 1 << 29;

  /// A window from the segment of `place` on.
  __device__ void look_for(int place) {
    base_ = bounds_.are_given
                ? candidate_for(group_, bounds_.judged(), origin_ + place)
                : group_.first_not(
                      min(base_, bounds_.segments), bounds_.segments, [&](std::int64_t segment) {
                        return bounds_.at(segment + 1) <= origin_ + place;
                      });
    ends_ = ends_from(base_);
    next_ends_ = ends_from(base_ + group_.lanes);
  }
  /// Twice the end of the lane's segment, 1 more where it is bad.
  __device__ int ends_from(std::int64_t segment) const {
    auto const mine = segment + group_.lane;
    bool const is_bad = bounds_.is_bad_by_lanes(segment, bounds_.segments, group_);
    if (mine >= bounds_.segments) {
      return 2 * kFar;
    }
    auto const end = is_bad ? bounds_.judged().ascending(mine + 1) : bounds_.at(mine + 1);
    auto const relative =
        static_cast<int>(min(max(end - origin_, std::int64_t{0}), std::int64_t{kFar}));
    return 2 * relative + (is_bad ? 1 : 0);
  }

  SegmentBounds const& bounds_;
  LaneGroup const& group_;
  std::int64_t origin_;
  std::int64_t base_;  ///< the segment whose end lane 0 keeps
  int ends_;
  int next_ends_;
  int lane_;  ///< whose segment this is
  int end_;
};

}  // namespace msstream::ops::kernels
