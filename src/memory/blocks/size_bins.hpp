// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>

namespace msstream::memory {

/// The size bins of a free list, 32 per doubling: the sizes in a bin differ by at most 1/32, and
/// below 16 KiB not at all. Sizes are multiples of kGrainBytes.
struct SizeBin {
  static constexpr std::size_t kGrainBytes = 512;
  static constexpr std::size_t kStepsPerDoubling = 32;
  static constexpr std::size_t kCount = 40 * kStepsPerDoubling;

  [[nodiscard]] static constexpr std::size_t of(std::size_t bytes) noexcept {
    std::size_t const grains = bytes / kGrainBytes;
    if (grains < kStepsPerDoubling) {
      return grains;
    }
    // The value of `grains` is in [32 << doubling, 64 << doubling).
    auto const doubling = static_cast<std::size_t>(std::bit_width(grains)) - 6;
    return kStepsPerDoubling * doubling + (grains >> doubling);
  }
  [[nodiscard]] static constexpr std::size_t round_down(std::size_t bytes) noexcept {
    return bytes / kGrainBytes * kGrainBytes;
  }
  [[nodiscard]] static constexpr std::size_t round_up(std::size_t bytes) noexcept {
    return (bytes + kGrainBytes - 1) / kGrainBytes * kGrainBytes;
  }
};

}  // namespace msstream::memory
