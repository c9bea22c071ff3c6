// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/parallel_rows_host.hpp"
#include "ids/bag_layout.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

/// Offsets of bags that ascend even if some of the original offsets are invalid, by
/// BagOffsets::ascending().
template <class Id>
struct AscendingOffsets {
  BagOffsets<Id> offsets;

  [[nodiscard]] std::int64_t operator[](std::int64_t border) const {
    return offsets.ascending(border);
  }
};

/// Calls `function(begin, end)` for ranges that together are all existing bags, on the calling
/// thread and on idle helper threads. The ranges have about the same number of positions each, and
/// at least `grain` items, counting positions and bags.
template <class Id, class Function>
void parallel_bags(IdBags<Id> const& bags, std::int64_t grain, Function&& function) {
  if (bags.offsets != nullptr) {
    parallel_rows(AscendingOffsets<Id>{bags.bag_offsets()}, bags.existing(), grain, function);
  } else {
    auto const bags_of_grain = std::max<std::int64_t>(1, grain / (bags.hotness + 1));
    parallel_ranges(bags.existing(), bags_of_grain, function);
  }
}

}  // namespace msstream::ops::kernels
