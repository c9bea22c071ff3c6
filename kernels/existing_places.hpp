// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// How many of the places that a launch is for exist: what `count` says on the device, or, where it
/// is null, all.
[[nodiscard]] constexpr std::int64_t existing_places(std::int64_t const* count,
                                                     std::int64_t capacity) {
  return count != nullptr ? clamped(*count, capacity) : capacity;
}

}  // namespace msstream::ops::kernels
