// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"
#include "memory/blocks/arena.hpp"
#include "memory/blocks/block.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

namespace msstream::memory {

/// The share of large memory that one stream group alone cuts into blocks, under a lock of its own.
/// The arena lends its blocks, the parts of the share, to a group whose threads often find the
/// arena's lock taken, or whose streams would often wait for memory that other groups have used.
/// When the arena has no other memory, it takes all parts back, as they are cut. Thread-safe. A
/// thread that has the arena's lock may take the share's lock, but not the other way round.
class alignas(64) GroupShare {
 public:
  GroupShare() { parts_.reserve(kMostParts); }

  /// Takes the free block of the share that fits best among those for which `ready(block)` is true,
  /// cut to `bytes`. Returns null if there is none.
  template <class Ready>
  [[nodiscard]] Block* take(std::size_t bytes, Ready&& ready) {
    if (arena_.free_bytes() < bytes) {
      return nullptr;
    }
    auto const lock = lock_with_spares();
    return arena_.take(bytes, ready);
  }
  /// Frees a block of the share and joins it with its neighbours, whichever streams used them.
  /// Returns false, and does nothing, if the arena has taken the block back while it was in use.
  [[nodiscard]] bool put(Block* block) noexcept {
    std::lock_guard const guard(mutex_);
    if (block->share.load(std::memory_order_relaxed) != this) {
      return false;
    }
    arena_.put(block, [](auto const&, auto const&) { return true; });
    return true;
  }

  /// Returns whether the group has never had a part.
  [[nodiscard]] bool is_new() const noexcept {
    return lent_bytes() == 0 && much_need_.load(std::memory_order_relaxed) == kMuchNeed;
  }
  [[nodiscard]] bool has_room_for_a_part() const noexcept {
    std::lock_guard const guard(mutex_);
    return parts_.size() < kMostParts;
  }
  /// Adds a used block of the arena to the share as a part. Returns false if the share has enough
  /// parts, or the host has no memory to note one more.
  [[nodiscard]] bool add(Block* lent) noexcept {
    try {
      auto const lock = lock_with_spares();
      if (parts_.size() == kMostParts) {
        return false;
      }
      Block* const first = arena_.borrow(*lent);
      first->share.store(this, std::memory_order_relaxed);
      parts_.push_back({lent, first});
      lent_bytes_.fetch_add(first->bytes, std::memory_order_relaxed);
    } catch (std::bad_alloc const&) {
      return false;
    }
    return true;
  }
  /// Returns all parts to the arena. The caller has the arena's lock.
  void give_back(Arena& owner) noexcept {
    std::lock_guard const guard(mutex_);
    for (auto const& part : parts_) {
      for (Block* block = part.first; block != nullptr; block = block->arena.higher) {
        block->share.store(nullptr, std::memory_order_release);
      }
      owner.take_back(part.lent, part.first, arena_);
    }
    if (!parts_.empty()) {
      auto const much = much_need_.load(std::memory_order_relaxed);
      much_need_.store(std::min(2 * much, kVeryMuchNeed), std::memory_order_relaxed);
    }
    parts_.clear();
    lent_bytes_.store(0, std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t lent_bytes() const noexcept {
    return lent_bytes_.load(std::memory_order_relaxed);
  }
  /// Returns how many bytes of the share are in use. The result may be slightly outdated.
  [[nodiscard]] std::size_t bytes_in_use() const noexcept {
    auto const lent = lent_bytes();
    return lent - std::min(lent, arena_.free_bytes());
  }

  template <class Visit>
  void for_each_free(Visit&& visit) const {
    std::lock_guard const guard(mutex_);
    arena_.for_each_free(visit);
  }

  /// Notes that the group has found the arena's lock taken.
  void note_contention() noexcept { contentions_.fetch_add(1, std::memory_order_relaxed); }
  /// Returns whether the group has often found the arena's lock taken since the last call that
  /// returned true.
  [[nodiscard]] bool take_much_contention() noexcept {
    if (contentions_.load(std::memory_order_relaxed) < kMuchContention) [[likely]] {
      return false;
    }
    contentions_.store(0, std::memory_order_relaxed);
    return true;
  }
  /// Notes that the group finds only memory that it would have to wait for, or that is in the
  /// shares of other groups.
  void note_need() noexcept { needs_.fetch_add(1, std::memory_order_relaxed); }
  /// Returns whether note_need() was called often since the last call that returned true. How often
  /// is enough starts at 1, and doubles, up to 64, each time the arena takes the share's parts
  /// back.
  [[nodiscard]] bool take_much_need() noexcept {
    if (needs_.load(std::memory_order_relaxed) < much_need_.load(std::memory_order_relaxed)) {
      return false;
    }
    needs_.store(0, std::memory_order_relaxed);
    return true;
  }

 private:
  static constexpr std::size_t kMostParts = 8;
  static constexpr int kMuchContention = 16;
  static constexpr std::uint64_t kMuchNeed = 1;
  static constexpr std::uint64_t kVeryMuchNeed = 64;

  struct Part {
    Block* lent;
    Block* first;  ///< the lowest block of the part, however the part is cut
  };

  [[nodiscard]] std::unique_lock<detail::SpinLock> lock_with_spares() {
    return with_spares(std::unique_lock(mutex_), arena_);
  }

  mutable detail::SpinLock mutex_;  ///< guards the arena and the parts
  Arena arena_;
  std::vector<Part> parts_;
  std::atomic<std::size_t> lent_bytes_{0};
  std::atomic<int> contentions_{0};
  std::atomic<std::uint64_t> needs_{0};
  std::atomic<std::uint64_t> much_need_{kMuchNeed};
};

}  // namespace msstream::memory
