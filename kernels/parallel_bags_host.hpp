// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"
#include "parallel_rows_host.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

/// The offsets of bags that may be bad, as all judges leave them.
template <class Id>
struct AscendingOffsets {
  BagOffsets<Id> offsets;

  [[nodiscard]] std::int64_t operator[](std::int64_t border) const {
    return offsets.ascending(border);
  }
};

/// Calls `function(begin, end)` for ranges that make up the bags that exist, as parallel_rows()
/// does: of about as many places each, and at least `grain` of them with the bags themselves.
template <class Id, class Function>
void parallel_bags(IdBags<Id> const& bags, std::int64_t grain, Function&& function) {
  if (bags.offsets != nullptr && bags.ascend) {
    parallel_rows(bags.offsets, bags.existing(), grain, function);
  } else if (bags.offsets != nullptr) {
    parallel_rows(AscendingOffsets<Id>{bags.bag_offsets()}, bags.existing(), grain, function);
  } else {
    auto const bags_of_grain = std::max<std::int64_t>(1, grain / (bags.hotness + 1));
    parallel_ranges(bags.existing(), bags_of_grain, function);
  }
}

}  // namespace msstream::ops::kernels
