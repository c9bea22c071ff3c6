// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace msstream::ops::kernels {

/// The place of a bag's row in messages of pooled rows that are split into early and late ones: 32
/// bits, which an early message has for each of its bags, by slot and bag, before its rows.
class RowPlace {
 public:
  /// The place of a bag that has no row.
  constexpr RowPlace() = default;
  /// `element` is the first one of the row, counted among those of all rows of its message.
  constexpr RowPlace(bool is_late, std::int64_t element)
      : bits_(static_cast<std::uint32_t>(element) * 2 + (is_late ? 1 : 0)) {}
  [[nodiscard]] static constexpr RowPlace of_float(float bits) {
    RowPlace place;
    place.bits_ = std::bit_cast<std::uint32_t>(bits);
    return place;
  }
  [[nodiscard]] constexpr float as_float() const { return std::bit_cast<float>(bits_); }

  [[nodiscard]] constexpr bool has_row() const { return bits_ != kNoRow; }
  [[nodiscard]] constexpr bool is_late() const { return bits_ % 2 != 0; }
  [[nodiscard]] constexpr std::int64_t element() const { return bits_ / 2; }

 private:
  static constexpr std::uint32_t kNoRow = 0xFFFFFFFF;

  std::uint32_t bits_ = kNoRow;
};

/// The slot of a column in the messages of a rank.
struct SplitSlot {
  std::int32_t slot;
  std::int32_t slots;  ///< of the message
  std::int32_t first_column;

  /// Returns the number of places before the rows of an early message.
  [[nodiscard]] constexpr std::int64_t places(std::int64_t most_bags) const {
    return slots * most_bags;
  }
  [[nodiscard]] constexpr std::int64_t number_of(std::int64_t most_bags, std::int64_t bag) const {
    return slot * most_bags + bag;
  }
};

}  // namespace msstream::ops::kernels
