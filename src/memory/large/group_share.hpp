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

/// Large blocks that one group alone cuts, under a lock of its own: because many threads contend
/// for the lock of the arena that the blocks belong to, or because the group would often wait for
/// memory that other groups have used. If the arena has no other memory, it takes the blocks back,
/// together with those they were cut into. Thread-safe. A thread that has the arena's lock may take
/// this lock, but not the other way round.
class alignas(64) GroupShare {
 public:
  GroupShare() { parts_.reserve(kMostParts); }

  /// Like Arena::take().
  template <class Ready>
  [[nodiscard]] Block* take(std::size_t bytes, Ready&& ready) {
    if (arena_.free_bytes() < bytes) {
      return nullptr;
    }
    auto const lock = lock_with_spares();
    return arena_.take(bytes, ready);
  }
  /// Frees a block and joins it with its neighbours, whichever streams used them. False if the
  /// arena has taken the block back while it was in use.
  [[nodiscard]] bool put(Block* block) noexcept {
    std::lock_guard const guard(mutex_);
    if (block->share.load(std::memory_order_relaxed) != this) {
      return false;
    }
    arena_.put(block, [](auto const&, auto const&) { return true; });
    return true;
  }

  /// Whether the group has never had a part.
  [[nodiscard]] bool is_new() const noexcept {
    return lent_bytes() == 0 && much_need_.load(std::memory_order_relaxed) == kMuchNeed;
  }
  [[nodiscard]] bool has_room_for_a_part() const noexcept {
    std::lock_guard const guard(mutex_);
    return parts_.size() < kMostParts;
  }
  /// Adds a used block of the arena. False if there are enough parts, or the host has no memory to
  /// note one more.
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
  /// Returns all parts to the arena. The caller has the lock of the arena.
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
  /// Returns how many bytes of the parts are in use. The result may be slightly outdated.
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
  /// Whether note_contention() was called often since the last call that returned true.
  [[nodiscard]] bool take_much_contention() noexcept {
    if (contentions_.load(std::memory_order_relaxed) < kMuchContention) [[likely]] {
      return false;
    }
    contentions_.store(0, std::memory_order_relaxed);
    return true;
  }
  /// Notes that the group finds only memory that it must wait for, or the parts of other groups.
  void note_need() noexcept { needs_.fetch_add(1, std::memory_order_relaxed); }
  /// Whether note_need() was called often since the last call that returned true. The required
  /// number of needs doubles, up to 64, each time that the arena takes this memory back.
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
    Block* first;  ///< the lowest block of the part, which cuts and joins keep
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
