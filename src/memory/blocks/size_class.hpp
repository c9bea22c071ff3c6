// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

namespace msstream::memory {

/// Returns the bytes of an array of `count` elements. If they overflow 64 bits, returns the largest
/// std::size_t, which no pool can allocate.
[[nodiscard]] constexpr std::size_t bytes_of_array(std::size_t count,
                                                   std::size_t element_bytes) noexcept {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return count > most / element_bytes ? most : count * element_bytes;
}

/// A class of block sizes: eight per doubling, from 256 bytes up. Rounding loses at most 1/8.
struct SizeClass {
  static constexpr std::size_t kLeastBytes = 256;
  static constexpr std::size_t kStepsPerDoubling = 8;
  static constexpr std::size_t kCount = 320;
  static constexpr std::size_t kMostBytes = std::size_t{1} << 46U;
  static constexpr std::size_t kNone = kCount;  ///< the class of a block that has a size of its own
  static constexpr std::size_t kMostSmallBytes = std::size_t{1} << 20U;  ///< the largest small size
  static constexpr std::size_t kSmallCount = 12 * kStepsPerDoubling + 1;

  std::size_t index;
  std::size_t bytes;  ///< the size of every block of the class, a multiple of 256

  /// Returns the smallest size class whose blocks hold `bytes`, for bytes ≤ kMostBytes.
  [[nodiscard]] static constexpr SizeClass of(std::size_t bytes) noexcept {
    std::size_t const wanted = std::max(bytes, kLeastBytes);
    std::size_t const step = step_of(wanted);
    return exactly((wanted + step - 1) & ~(step - 1));
  }
  /// Returns the largest size class whose blocks fit in `bytes`, which must be at least 256.
  [[nodiscard]] static constexpr SizeClass within(std::size_t bytes) noexcept {
    return exactly(bytes & ~(step_of(bytes) - 1));
  }

 private:
  /// Returns the difference between successive size classes at this size, a power of two.
  [[nodiscard]] static constexpr std::size_t step_of(std::size_t bytes) noexcept {
    return std::max(kLeastBytes, std::bit_floor(bytes) / kStepsPerDoubling);
  }
  [[nodiscard]] static constexpr SizeClass exactly(std::size_t bytes) noexcept {
    std::size_t const doubling = std::bit_width(bytes | 1U) - 1;
    std::size_t const place = (bytes - (std::size_t{1} << doubling)) * kStepsPerDoubling;
    return {(doubling - 8) * kStepsPerDoubling + (place >> doubling), bytes};
  }
};

static_assert(SizeClass::of(SizeClass::kMostSmallBytes).index + 1 == SizeClass::kSmallCount);

}  // namespace msstream::memory
