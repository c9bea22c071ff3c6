// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace msstream::ops::kernels {

/// A slot in a message of pooled rows that is split in two. The early message has slots * most_bags
/// + 1 offsets, by slot and bag, and then the rows of the early bags. An offset counts the elements
/// of rows before it, as an int32 in the bits of a float; a bag without elements there is late. The
/// late message has the rows of these alone. Both have the rows slot by slot.
struct SplitSlot {
  std::int32_t slot;
  std::int32_t slots;  ///< of the message
  std::int32_t first_column;
  std::int32_t columns;

  [[nodiscard]] constexpr std::int64_t offsets(std::int64_t most_bags) const {
    return slots * most_bags + 1;
  }
  [[nodiscard]] constexpr std::int64_t number_of(std::int64_t most_bags, std::int64_t bag) const {
    return slot * most_bags + bag;
  }
  /// Returns the place of a bag's row in the late message, where so many elements of the early
  /// message are before it.
  [[nodiscard]] constexpr std::int64_t late_place(std::int64_t most_bags,
                                                  std::int64_t bag,
                                                  std::int64_t early) const {
    return first_column * most_bags + bag * columns - early;
  }
};

[[nodiscard]] constexpr float float_of_offset(std::int64_t offset) {
  return std::bit_cast<float>(static_cast<std::int32_t>(offset));
}
[[nodiscard]] constexpr std::int64_t offset_of_float(float bits) {
  return std::bit_cast<std::int32_t>(bits);
}

}  // namespace msstream::ops::kernels
