// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"
#include "memory/blocks/arena.hpp"
#include "memory/blocks/block.hpp"
#include "memory/blocks/block_uses.hpp"
#include "stream/dependency_tracker.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace msstream::memory {

/// The arena of a pool that all stream groups share, with its lock. The lock is held neither during
/// calls of the runtime, except on destruction, nor while host memory is allocated, except to note
/// uses by many streams. Thread-safe.
class LockedArena {
  /// Returns a function that decides whether two free neighbours may join, by is_joined_cheaply().
  [[nodiscard]] auto joins_for_free() const noexcept {
    return [this](Block const& lower, Block const& higher) {
      return is_joined_cheaply(
          lower, higher, [this](order::Position use) { return tracker_->is_known_complete(use); });
    };
  }

 public:
  explicit LockedArena(std::shared_ptr<detail::DependencyTracker> tracker)
      : tracker_(std::move(tracker)) {}

  /// A guard that holds the arena's lock and gives access to the arena.
  template <class A>
  class BasicAccess {
   public:
    BasicAccess(std::unique_lock<detail::SpinLock> lock, A& arena) noexcept
        : lock_(std::move(lock)), arena_(&arena) {}

    A* operator->() const noexcept { return arena_; }
    A& operator*() const noexcept { return *arena_; }

   private:
    std::unique_lock<detail::SpinLock> lock_;
    A* arena_;
  };
  using Access = BasicAccess<Arena>;
  using ConstAccess = BasicAccess<Arena const>;
  [[nodiscard]] Access access() noexcept { return {std::unique_lock(mutex_), arena_}; }
  [[nodiscard]] ConstAccess access() const noexcept { return {std::unique_lock(mutex_), arena_}; }
  /// Locks the arena, with enough spare blocks to cut blocks.
  [[nodiscard]] Access access_to_cut() {
    return {with_spares(std::unique_lock(mutex_), arena_), arena_};
  }
  /// Locks the arena, with enough spare blocks to cut blocks. Calls `note_contention()` if another
  /// thread has the lock.
  template <class NoteContention>
  [[nodiscard]] Access access_to_cut(NoteContention&& note_contention) {
    std::unique_lock<detail::SpinLock> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      note_contention();
      lock.lock();
    }
    return {with_spares(std::move(lock), arena_), arena_};
  }

  /// Takes the free block of at least `bytes` with the least `cost(block)`; among equal costs, the
  /// best fit. Returns null if there is none.
  template <class Cost>
  [[nodiscard]] Block* take_cheapest(std::size_t bytes, Cost&& cost) {
    auto const arena = access_to_cut();
    Block* const found = arena->cheapest(bytes, cost);
    return found != nullptr ? arena->take_from(found, bytes) : nullptr;
  }
  /// Returns the last uses of the free block of at least `bytes` with the least `cost(block)`,
  /// without taking the block.
  template <class Cost>
  [[nodiscard]] order::PositionSet uses_of_cheapest(std::size_t bytes, Cost&& cost) const {
    order::PositionSet uses;
    auto const arena = access();
    if (auto const* const found = arena->cheapest(bytes, cost)) {
      for_each_use(*found, [&](order::Position use) { uses.add(use); });
    }
    return uses;
  }
  /// Frees a block, unless it is null, and joins it with its neighbours if that makes hardly any
  /// stream wait. If different streams still used the parts, no stream could use the joined block
  /// without a wait.
  void put(Block* block) noexcept {
    if (block != nullptr) {
      access()->put(block, joins_for_free());
    }
  }
  void join_what_is_over() noexcept { access()->join_neighbours(joins_for_free()); }
  /// Joins all free neighbours, whichever streams used them, so that a later owner may have to
  /// wait.
  void join_all() noexcept {
    access()->join_neighbours([](auto const&, auto const&) { return true; });
  }

 private:
  std::shared_ptr<detail::DependencyTracker> tracker_;
  alignas(64) mutable detail::SpinLock mutex_;
  Arena arena_;
};

}  // namespace msstream::memory
