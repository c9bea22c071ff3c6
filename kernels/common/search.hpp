// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// Returns how many of the ascending values[0 .. count) are ≤ `value`; 0 for a NaN, which is not
/// ordered with any value.
template <class T>
[[nodiscard]] constexpr std::int64_t count_not_above(T const* values, std::int64_t count, T value) {
  std::int64_t low = 0;
  while (low < count) {
    auto const middle = low + (count - low) / 2;
    if (values[middle] <= value) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return low;
}

}  // namespace msstream::ops::kernels
