// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace msstream::memory {

/// Which of `Count` places hold something: finds the next one in a few instructions. One thread at
/// a time changes it; others may look, and may see what was a moment ago.
template <std::size_t Count>
class Occupied {
 public:
  static constexpr std::size_t kNone = Count;

  void insert(std::size_t place) noexcept {
    auto& word = words_[place / kBits];
    word.store(word.load(std::memory_order_relaxed) | bit(place), std::memory_order_relaxed);
  }
  void erase(std::size_t place) noexcept {
    auto& word = words_[place / kBits];
    word.store(word.load(std::memory_order_relaxed) & ~bit(place), std::memory_order_relaxed);
  }
  /// The first occupied place from `place` on, or kNone; `place` may be beyond all.
  [[nodiscard]] std::size_t next(std::size_t place) const noexcept {
    auto wanted = ~std::uint64_t{0} << (place % kBits);
    for (std::size_t word = place / kBits; word < words_.size(); ++word) {
      if (auto const found = words_[word].load(std::memory_order_relaxed) & wanted; found != 0) {
        return word * kBits + static_cast<std::size_t>(std::countr_zero(found));
      }
      wanted = ~std::uint64_t{0};
    }
    return kNone;
  }
  /// The last occupied place, or kNone.
  [[nodiscard]] std::size_t last() const noexcept {
    for (std::size_t word = words_.size(); word-- > 0;) {
      if (auto const found = words_[word].load(std::memory_order_relaxed); found != 0) {
        return word * kBits + kBits - 1 - static_cast<std::size_t>(std::countl_zero(found));
      }
    }
    return kNone;
  }

 private:
  static constexpr std::size_t kBits = 64;

  static constexpr std::uint64_t bit(std::size_t place) noexcept {
    return std::uint64_t{1} << (place % kBits);
  }

  std::array<std::atomic<std::uint64_t>, (Count + kBits - 1) / kBits> words_{};
};

}  // namespace msstream::memory
