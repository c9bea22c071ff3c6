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

/// counts[s] = rows of segment s.
inline void count_rows(SegmentLayout const& layout, std::int64_t* counts) {
  std::fill_n(counts, layout.segments, 0);
  for_each_place(layout, [&](std::int64_t /*place*/, std::int64_t segment) {
    if (segment >= 0) {
      ++counts[segment];
    }
  });
}

}  // namespace msstream::ops::kernels
