// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "segment_math.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

/// Calls visit(place, its segment, or -1) for all places, in ascending order.
template <class Visit>
void for_each_place(SegmentLayout const& layout, Visit const& visit) {
  std::int64_t place = 0;
  if (layout.form != SegmentForm::offsets) {
    for (auto const existing = existing_places(layout); place < layout.capacity; ++place) {
      visit(place, segment_of_place(layout, existing, place));
    }
    return;
  }
  auto const* const offsets = static_cast<std::int64_t const*>(layout.indices);
  auto const visit_up_to = [&](std::int64_t end, std::int64_t segment) {
    for (; place < end; ++place) {
      visit(place, segment);
    }
  };
  visit_up_to(offsets[0], -1);
  for (std::int64_t s = 0; s < layout.segments; ++s) {
    visit_up_to(offsets[s + 1], s);
  }
  visit_up_to(layout.capacity, -1);
}

/// How many rows each segment has: offsets tell, ids are counted.
class RowCounts {
 public:
  /// Of the memory that it needs.
  [[nodiscard]] static std::int64_t elements(SegmentLayout const& layout) {
    return layout.form == SegmentForm::offsets ? 0 : layout.segments;
  }
  RowCounts(SegmentLayout const& layout, std::int64_t* memory)
      : offsets_(layout.form == SegmentForm::offsets
                     ? static_cast<std::int64_t const*>(layout.indices)
                     : nullptr),
        counts_(memory) {
    if (offsets_ == nullptr) {
      std::fill_n(memory, layout.segments, 0);
      for_each_place(layout, [&](std::int64_t /*place*/, std::int64_t segment) {
        if (segment >= 0) {
          ++memory[segment];
        }
      });
    }
  }

  [[nodiscard]] std::int64_t of(std::int64_t segment) const {
    return offsets_ != nullptr ? offsets_[segment + 1] - offsets_[segment] : counts_[segment];
  }

 private:
  std::int64_t const* offsets_;
  std::int64_t const* counts_;
};

}  // namespace msstream::ops::kernels
