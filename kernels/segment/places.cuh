// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "segment/cursor.cuh"
#include "segment/math.hpp"

#include <cstdint>

/// The positions of segments, as kernels process them: a group of lanes walks over neighbouring
/// positions and finds the segment of each. The number of rows of a segment is known, too. If
/// kWalksByWarp is set, a warp walks, and each of its lanes asks for the segments of its own
/// positions.
namespace msstream::ops::kernels {

/// The positions of segments that are given by offsets. All lanes of the group must call
/// Walk::segment(), with ascending positions.
struct PlacesOfSpans {
  static constexpr bool kWalksByWarp = false;
  SegmentBounds bounds;

  class Walk {
   public:
    __device__ Walk(PlacesOfSpans const& places,
                    LaneGroup const& group,
                    std::int64_t begin,
                    std::int64_t end)
        : held_(places.bounds.held(begin, end)), cursor_(places.bounds, group, held_) {}

    /// Returns the segment of a position, or -1 if the position is in no segment.
    __device__ std::int64_t segment(std::int64_t place) {
      if (place < held_.begin || place >= held_.end) {
        return -1;
      }
      auto const relative = static_cast<int>(place - held_.begin);
      if (relative >= cursor_.end()) {
        cursor_.advance(relative);
      }
      return cursor_.is_bad() ? -1 : cursor_.segment();
    }

   private:
    PlaceRange held_;
    SegmentCursor cursor_;
  };

  __device__ std::int64_t rows(std::int64_t segment) const {
    return bounds.at(segment + 1) - bounds.at(segment);
  }
};

/// The positions of segments that are given by offsets, for narrow rows, whose groups of lanes are
/// too small to search the offsets. All lanes of the warp must call Walk::segments().
struct PlacesOfNarrowSpans {
  static constexpr bool kWalksByWarp = true;
  SegmentBounds bounds;

  class Walk {
   public:
    __device__ Walk(PlacesOfNarrowSpans const& places,
                    LaneGroup const& warp,
                    std::int64_t begin,
                    std::int64_t end)
        : held_(places.bounds.held(begin, end)), cursor_(places.bounds, warp, held_) {}

    /// Finds the segments of the calling lane's positions place + k, -1 for a position in no
    /// segment. The positions must ascend with the lanes and from call to call.
    template <int N>
    __device__ void segments(std::int64_t place, std::int64_t (&found)[N]) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        found[k] = -1;
      }
      auto const within = [&](std::int64_t border) {
        return static_cast<int>(min(max(border - place, std::int64_t{0}), std::int64_t{N}));
      };
      cursor_.find(
          static_cast<int>(place - held_.begin), within(held_.begin), within(held_.end), found);
    }

   private:
    PlaceRange held_;
    SegmentCursor cursor_;
  };

  __device__ std::int64_t rows(std::int64_t segment) const {
    return bounds.at(segment + 1) - bounds.at(segment);
  }
};

/// The positions of segments that are given by unsorted ids.
struct PlacesOfIds {
  static constexpr bool kWalksByWarp = false;
  SegmentLayout layout;
  std::uint32_t const* counts;  ///< [segments]: number of rows; null if rows() is not called

  class Walk {
   public:
    __device__ Walk(PlacesOfIds const& places,
                    LaneGroup const& /*group*/,
                    std::int64_t /*begin*/,
                    std::int64_t /*end*/)
        : layout_(places.layout), existing_(existing_places(layout_)) {}

    __device__ std::int64_t segment(std::int64_t place) {
      return segment_of_place(layout_, existing_, place);
    }

   private:
    SegmentLayout const& layout_;
    std::int64_t existing_;
  };

  __device__ std::int64_t rows(std::int64_t segment) const { return counts[segment]; }
};

}  // namespace msstream::ops::kernels
