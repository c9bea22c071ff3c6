// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// Limits a count read from device memory to [0, most], where `most` is the count that the launch
/// was sized for, so that a wrong count does not lead to accesses outside the memory.
[[nodiscard]] constexpr std::int64_t clamped(std::int64_t count, std::int64_t most) {
  return count < 0 ? 0 : count > most ? most : count;
}

[[nodiscard]] constexpr bool is_in_range(std::int64_t id, std::int64_t rows) {
  return static_cast<std::uint64_t>(id) < static_cast<std::uint64_t>(rows);
}

/// Returns how many of the `capacity` positions of a launch exist: the value of `count` in device
/// memory, limited to the capacity, or the capacity if `count` is null.
[[nodiscard]] constexpr std::int64_t existing_places(std::int64_t const* count,
                                                     std::int64_t capacity) {
  return count != nullptr ? clamped(*count, capacity) : capacity;
}

}  // namespace msstream::ops::kernels
