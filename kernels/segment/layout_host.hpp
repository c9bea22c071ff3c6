// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/parallel_rows_host.hpp"
#include "ids/bag_offsets.hpp"
#include "segment/math.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

/// Returns the offsets of segments whose layout a caller gave as offsets.
[[nodiscard]] inline BagOffsets<std::int64_t> offsets_of(SegmentLayout const& layout) {
  return {static_cast<std::int64_t const*>(layout.indices),
          layout.segments,
          layout.capacity,
          layout.ascend};
}

/// Returns a copy of an operation's arguments with `layout.ascend` set to whether the segments are
/// given by offsets that all ascend. Reads all offsets.
template <class Args>
[[nodiscard]] Args looked_at(Args args) {
  args.layout.ascend =
      args.layout.form == SegmentForm::offsets && offsets_of(args.layout).looked_at().ascend;
  return args;
}

/// Calls visit(position, segment) for the positions [place, last), in ascending order. The segment
/// is -1 for a position in no segment.
template <class Visit>
void for_each_place(SegmentLayout const& layout,
                    std::int64_t place,
                    std::int64_t last,
                    Visit const& visit) {
  if (layout.form != SegmentForm::offsets) {
    for (auto const existing = existing_places(layout); place < last; ++place) {
      visit(place, segment_of_place(layout, existing, place));
    }
    return;
  }
  auto const offsets = offsets_of(layout);
  auto const visit_up_to = [&](std::int64_t end, std::int64_t segment) {
    for (; place < std::min(end, last); ++place) {
      visit(place, segment);
    }
  };
  for (auto s = offsets.candidate_for(place); s < layout.segments && place < last; ++s) {
    if (!offsets.is_bad(s)) {
      visit_up_to(offsets.at[s], -1);
      visit_up_to(offsets.at[s + 1], s);
    }
  }
  visit_up_to(last, -1);
}

/// Returns the first position from `place` on that is not in the segment of the position before
/// `place`. The segments must ascend.
[[nodiscard]] inline std::int64_t begin_of_segment(SegmentLayout const& layout,
                                                   std::int64_t place) {
  if (place == 0 || place == layout.capacity) {
    return place;
  }
  if (layout.form == SegmentForm::offsets) {
    auto const offsets = offsets_of(layout);
    auto const s = offsets.bag_of(place - 1);
    return s >= 0 ? offsets.at[s + 1] : place;
  }
  auto const existing = existing_places(layout);
  if (place > existing) {
    return place;
  }
  auto const id = segment_id(layout, place - 1);
  auto end = existing;
  while (place < end) {
    auto const middle = place + (end - place) / 2;
    if (segment_id(layout, middle) <= id) {
      place = middle + 1;
    } else {
      end = middle;
    }
  }
  return place;
}

/// Calls work(begin, end) for ranges that together are all positions, on the calling thread and on
/// idle helper threads. Each range has whole segments, so that one thread writes a segment's sum.
/// If the positions of a segment may be anywhere, there is only one range.
template <class Work>
void parallel_segments(SegmentLayout const& layout, std::int64_t grain, Work const& work) {
  if (layout.form == SegmentForm::unsorted_ids) {
    work(std::int64_t{0}, layout.capacity);
    return;
  }
  parallel_ranges(layout.capacity, grain, [&](std::int64_t begin, std::int64_t end) {
    begin = begin_of_segment(layout, begin);
    end = begin_of_segment(layout, end);
    if (begin < end) {
      work(begin, end);
    }
  });
}

/// The number of rows of each segment, 0 for a segment with invalid offsets. Computed from the
/// offsets, or by counting the ids.
class RowCounts {
 public:
  /// Returns the number of elements of memory that a RowCounts object for `layout` needs.
  [[nodiscard]] static std::int64_t elements(SegmentLayout const& layout) {
    return layout.form == SegmentForm::offsets ? 0 : layout.segments;
  }
  RowCounts(SegmentLayout const& layout, std::int64_t* memory) : layout_(layout), counts_(memory) {
    if (layout.form != SegmentForm::offsets) {
      std::fill_n(memory, layout.segments, 0);
      auto const count = [&](std::int64_t /*place*/, std::int64_t segment) {
        if (segment >= 0) {
          ++memory[segment];
        }
      };
      auto const count_some = [&](std::int64_t begin, std::int64_t end) {
        for_each_place(layout, begin, end, count);
      };
      parallel_segments(layout, grain_of(sizeof(std::int64_t)), count_some);
    }
  }

  [[nodiscard]] std::int64_t of(std::int64_t segment) const {
    if (layout_.form != SegmentForm::offsets) {
      return counts_[segment];
    }
    auto const places = offsets_of(layout_).places_of(segment);
    return places.end - places.begin;
  }

 private:
  SegmentLayout const& layout_;
  std::int64_t const* counts_;
};

}  // namespace msstream::ops::kernels
