// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace msstream::memory {

/// A set of indices below `Count`, one bit each. next() finds the next index of the set in a few
/// instructions, however far it is. Only one thread at a time may change the set; other threads may
/// read it, and may see a slightly outdated state.
template <std::size_t Count>
class Occupied {
 public:
  static constexpr std::size_t kNone = Count;

  void insert(std::size_t place) noexcept {
    set(words_[place / kBits], place % kBits);
    set(words_in_use_, place / kBits);
  }
  void erase(std::size_t place) noexcept {
    auto& word = words_[place / kBits];
    clear(word, place % kBits);
    if (load(word) == 0) {
      clear(words_in_use_, place / kBits);
    }
  }
  /// Returns the first index of the set from `place` on; kNone if there is none. `place` may be
  /// beyond all indices.
  [[nodiscard]] std::size_t next(std::size_t place) const noexcept {
    if (place >= Count) {
      return kNone;
    }
    std::size_t word = place / kBits;
    auto found = from(load(words_[word]), place % kBits);
    while (found == 0) {
      auto const others = from(load(words_in_use_), word + 1);
      if (others == 0) {
        return kNone;
      }
      word = lowest(others);
      found = load(words_[word]);
    }
    return word * kBits + lowest(found);
  }
  /// Returns the last index of the set; kNone if it is empty.
  [[nodiscard]] std::size_t last() const noexcept {
    for (std::size_t word = words_.size(); word-- > 0;) {
      if (auto const found = load(words_[word]); found != 0) {
        return word * kBits + kBits - 1 - static_cast<std::size_t>(std::countl_zero(found));
      }
    }
    return kNone;
  }

 private:
  using Word = std::atomic<std::uint64_t>;
  static constexpr std::size_t kBits = 64;
  static constexpr std::size_t kWords = (Count + kBits - 1) / kBits;
  static_assert(kWords < kBits, "one word says which of them are not 0, and has a bit behind them");

  static std::uint64_t load(Word const& word) noexcept {
    return word.load(std::memory_order_relaxed);
  }
  static void set(Word& word, std::size_t place) noexcept {
    word.store(load(word) | std::uint64_t{1} << place, std::memory_order_relaxed);
  }
  static void clear(Word& word, std::size_t place) noexcept {
    word.store(load(word) & ~(std::uint64_t{1} << place), std::memory_order_relaxed);
  }
  static constexpr std::uint64_t from(std::uint64_t bits, std::size_t place) noexcept {
    return bits & (~std::uint64_t{0} << place);
  }
  static constexpr std::size_t lowest(std::uint64_t bits) noexcept {
    return static_cast<std::size_t>(std::countr_zero(bits));
  }

  std::array<Word, kWords> words_{};
  Word words_in_use_{0};
};

}  // namespace msstream::memory
