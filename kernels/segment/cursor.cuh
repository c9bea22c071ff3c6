// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/lane_group.cuh"
#include "ids/bag_offsets.cuh"
#include "ids/bag_offsets.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// The bounds of segments. Segment s has the positions [at(s), at(s + 1)), unless its offsets are
/// invalid (BagOffsets::is_bad).
struct SegmentBounds {
  std::int64_t const* offsets;
  std::int64_t segments;
  std::int64_t capacity;
  bool are_given;  ///< whether a caller gave the offsets, so that they may be invalid

  __device__ BagOffsets<std::int64_t> judged() const { return {offsets, segments, capacity}; }
  /// Returns whether the calling lane's segment has invalid offsets, where lane l has segment first
  /// + l. Returns false on lanes whose segment is not before `end`. All lanes of the group must
  /// call is_bad_by_lanes() together.
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
  /// Returns the positions of a segment with valid offsets.
  __device__ PlaceRange places_of(std::int64_t segment) const {
    return {at(segment), at(segment + 1)};
  }
  /// Returns the range of those positions of [begin, end) that are in a segment, possibly none.
  /// Positions of segments with invalid offsets may be among them.
  __device__ PlaceRange held(std::int64_t begin, std::int64_t end) const {
    auto const all = are_given ? judged().all_places() : PlaceRange{at(0), at(segments)};
    return {max(begin, all.begin), min(end, all.end)};
  }
};

/// A cursor with which a group of lanes walks from segment to segment along neighbouring positions,
/// past any number of empty segments.
///
/// Each lane keeps the end of one of the next segments, and has requested the end of one of those
/// after them, so that the next segment is usually found without waiting for memory. Offsets that a
/// caller gave are checked when they are first used. Positions are relative to an origin. Positions
/// between the segments with valid offsets are assigned to those with invalid offsets, so that the
/// bounds of all segments ascend.
class SegmentCursor {
 public:
  /// Starts in the segment of the first of `places`, or in no segment if there are no positions.
  /// The first position is the origin of relative positions. `places` must be a result of
  /// SegmentBounds::held(), so that each position has a segment.
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
  /// Returns whether the current segment begins before the origin.
  [[nodiscard]] __device__ bool begins_before() const {
    auto const begin = is_bad() ? bounds_.judged().ascending(segment()) : bounds_.at(segment());
    return begin < origin_;
  }

  /// Advances the cursor to the segment of `place`. The position must not be before the current
  /// segment, and must be before the end of the cursor's positions: after that end the search would
  /// never finish.
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
        use_window(next_ends_);
      } else {
        base_ += group_.lanes;
        look_for(place);
      }
    }
  }

  /// Finds the segments of up to N neighbouring places for each lane: those of the calling lane's
  /// places place + k for from <= k < to, which become segments[k], or -1 if the segment has
  /// invalid offsets. The places must ascend with the lanes and from call to call, and must be
  /// before the end of the cursor's positions. All lanes of the group must call find() together.
  /// segment() and end() are those of the last group of segments afterwards.
  template <int N>
  __device__ void find(int place, int from, int to, std::int64_t (&segments)[N]) {
    for (;;) {
      auto const missing = group_.ballot(from < to);
      if (missing == 0) {
        return;
      }
      advance(group_.from_lane(place + from, __ffs(static_cast<int>(missing)) - 1));
#pragma unroll
      for (int k = 0; k < N; ++k) {
        int const key = 2 * (place + k) + 1;
        int at = 0;  // the lane that keeps the end of the segment, if the group of segments has it
        for (int half = group_.lanes / 2; half > 0; half /= 2) {
          at += group_.from_lane(ends_, at + half - 1) > key ? 0 : half;
        }
        int const end = group_.from_lane(ends_, at);
        if (k == from && k < to && end > key) {
          segments[k] = end % 2 != 0 ? -1 : base_ + at;
          ++from;
        }
      }
    }
  }

 private:
  /// The number of groups of segments that are passed one by one before a search.
  static constexpr int kWindowsPassed = 3;
  static constexpr int kFar = 1 << 29;

  /// Loads the ends of the next segments, one per lane, from the segment of `place` on.
  __device__ void look_for(int place) {
    base_ = bounds_.are_given
                ? candidate_for(group_, bounds_.judged(), origin_ + place)
                : group_.first_not(
                      min(base_, bounds_.segments), bounds_.segments, [&](std::int64_t segment) {
                        return bounds_.at(segment + 1) <= origin_ + place;
                      });
    use_window(end_of(base_));
  }
  /// Makes segments `base_`, `base_` + 1, … the cursor's current segments, one per lane. `end` is
  /// the calling lane's end_of(base_). Checks the offsets of these segments, and starts to load the
  /// ends of the next group of segments. The offsets of the next group are checked only when the
  /// cursor reaches that group, which is rare.
  __device__ void use_window(int end) {
    next_ends_ = end_of(base_ + group_.lanes);
    bool const is_bad = bounds_.is_bad_by_lanes(base_, bounds_.segments, group_);
    ends_ = 2 * (is_bad ? relative(bounds_.judged().ascending(base_ + group_.lane + 1)) : end) +
            (is_bad ? 1 : 0);
  }
  /// Returns the end, relative to the origin, of the calling lane's segment among the segments from
  /// `segment` on, without a check of the offsets.
  __device__ int end_of(std::int64_t segment) const {
    auto const mine = segment + group_.lane;
    return mine < bounds_.segments ? relative(bounds_.at(mine + 1)) : kFar;
  }
  __device__ int relative(std::int64_t place) const {
    return static_cast<int>(min(max(place - origin_, std::int64_t{0}), std::int64_t{kFar}));
  }

  SegmentBounds const& bounds_;
  LaneGroup const& group_;
  std::int64_t origin_;
  std::int64_t base_;  ///< the segment whose end lane 0 keeps
  int ends_;  ///< twice the relative end of the lane's segment, plus 1 if its offsets are invalid
  int next_ends_;  ///< the relative end of the lane's segment in the next group, not checked
  int lane_;       ///< the lane that keeps the end of the current segment
  int end_;
};

}  // namespace msstream::ops::kernels
