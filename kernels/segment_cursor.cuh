// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"
#include "segment_lanes.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

/// Segment s has the places [at(s), at(s + 1)).
struct SegmentBounds {
  std::int64_t const* offsets;
  std::int64_t segments;
  std::int64_t capacity;

  __device__ std::int64_t at(std::int64_t border) const {
    return clamped(__ldg(offsets + border), capacity);
  }
  __device__ PlaceRange places_of(std::int64_t segment) const {
    return {at(segment), at(segment + 1)};
  }
  /// Those of [begin, end) that are in a segment, or none.
  __device__ PlaceRange held(std::int64_t begin, std::int64_t end) const {
    return {max(begin, at(0)), min(end, at(segments))};
  }
};

/// Goes with a group of lanes from segment to segment along neighbouring places, and passes any
/// number of empty ones.
///
/// Each lane keeps the end of one of the next segments, and has asked for one of those after: the
/// next segment is found without waiting for memory. Places are relative to an origin.
class SegmentCursor {
 public:
  /// Stands in the segment of the origin, which is in one.
  __device__ SegmentCursor(SegmentBounds const& bounds, LaneGroup const& group, std::int64_t origin)
      : bounds_(bounds), group_(group), origin_(origin), base_(0) {
    look_for(0);
    advance(0);
  }

  /// Offsets that do not ascend must not lead out of the output.
  [[nodiscard]] __device__ std::int64_t segment() const {
    return min(base_ + lane_, bounds_.segments - 1);
  }
  [[nodiscard]] __device__ int end() const { return end_; }

  /// To the segment of `place`, which is not before the one it stands in.
  __device__ void advance(int place) {
    for (int passed = 0;; ++passed) {
      auto const later = group_.ballot(ends_ > place);
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
  static constexpr int kFar = 1 << 30;

  /// A window from the segment of `place` on.
  __device__ void look_for(int place) {
    base_ =
        group_.first_not(min(base_, bounds_.segments), bounds_.segments, [&](std::int64_t segment) {
          return bounds_.at(segment + 1) <= origin_ + place;
        });
    ends_ = ends_from(base_);
    next_ends_ = ends_from(base_ + group_.lanes);
  }
  __device__ int ends_from(std::int64_t segment) const {
    auto const mine = segment + group_.lane;
    return mine < bounds_.segments
               ? static_cast<int>(min(bounds_.at(mine + 1) - origin_, std::int64_t{kFar}))
               : kFar;
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
