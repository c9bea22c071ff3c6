// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// Returns how many of the `capacity` positions of a launch exist: the value of `count` in device
/// memory, limited to the capacity, or the capacity if `count` is null.
[[nodiscard]] constexpr std::int64_t existing_places(std::int64_t const* count,
                                                     std::int64_t capacity) {
  return count != nullptr ? clamped(*count, capacity) : capacity;
}

}  // namespace msstream::ops::kernels
