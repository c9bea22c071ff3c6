// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"
#include "memory/blocks/block.hpp"
#include "memory/blocks/block_list.hpp"
#include "memory/blocks/block_uses.hpp"
#include "memory/blocks/occupied.hpp"
#include "memory/blocks/size_class.hpp"
#include "memory/small/live_bytes.hpp"
#include "memory/small/rivalry.hpp"

#include <msstream/memory/statistics.hpp>
#include <msstream/order/detail/position_set.hpp>
#include <msstream/trace/name_scope.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace msstream::memory {

/// The free small blocks that one stream allocated, in one list per size class, oldest first, and
/// the list and counts of the stream's blocks in use, which keep the device alive. An allocation
/// that finds a block here takes no lock but the cache's own. Thread-safe.
class alignas(64) StreamCache {
 public:
  struct Account {
    detail::AllocationCounts counts;
    std::size_t live_bytes = 0;
    std::size_t peak_live_bytes = 0;
  };
  using DeviceOwner = std::shared_ptr<detail::DeviceState>;

  static constexpr std::size_t kLooks = 8;

  StreamCache(LiveBytes& pool_live, order::StreamIndex stream) noexcept
      : pool_live_(pool_live), stream_(stream) {}

  /// Takes a free block of the class for which `ready(block)` is true, looking from the newest,
  /// which are likely to be in the processor's cache. If there is none, takes the oldest if
  /// `over(block)` is true for it; otherwise returns null.
  template <class Ready, class Over>
  [[nodiscard]] Block* take_ready(std::size_t size_class, Ready&& ready, Over&& over) {
    if (occupied_.next(size_class) != size_class) {
      return nullptr;
    }
    std::lock_guard const guard(lock_);
    return find_ready(size_class, ready, over);
  }
  /// Takes a free block for which `ready(block)` is true, of the class or of one up to twice as
  /// large, and marks it as in use by the cache's stream. A larger block costs less than a search
  /// of other caches. Returns null if there is none.
  template <class Ready>
  [[nodiscard]] Block* use_ready(std::size_t size_class, Ready&& ready, DeviceOwner const& device) {
    auto const over = [](auto const&) { return false; };
    std::size_t const last =
        std::min(size_class + SizeClass::kStepsPerDoubling, SizeClass::kSmallCount - 1);
    std::lock_guard const guard(lock_);
    for (auto index = occupied_.next(size_class); index <= last;
         index = occupied_.next(index + 1)) {
      if (auto* const block = find_ready(index, ready, over)) {
        begin_use(*block, device);
        return block;
      }
    }
    return nullptr;
  }
  /// Takes a free block of the class for which `over(block)` is true, looking from the oldest,
  /// whose uses are the likeliest to be complete. Returns null if there is none.
  template <class Over>
  [[nodiscard]] Block* take_over(std::size_t size_class, Over&& over) {
    if (occupied_.next(size_class) != size_class) {
      return nullptr;
    }
    std::lock_guard const guard(lock_);
    auto const& list = lists_[size_class];
    Block* block = list.oldest();
    for (std::size_t look = 0; look < kLooks && block != nullptr; ++look) {
      if (over(*block)) {
        return take(block);
      }
      block = list.newer_than(*block);
    }
    return nullptr;
  }
  [[nodiscard]] Block* take_oldest(std::size_t size_class) {
    if (occupied_.next(size_class) != size_class) {
      return nullptr;
    }
    std::lock_guard const guard(lock_);
    auto* const oldest = lists_[size_class].oldest();
    return oldest != nullptr ? take(oldest) : nullptr;
  }
  /// Returns the last uses of the free block at index `place` of the class, where 0 is the oldest;
  /// nothing if there is no such block.
  [[nodiscard]] std::optional<order::PositionSet> uses_of(std::size_t size_class,
                                                          std::size_t place) const {
    if (occupied_.next(size_class) != size_class) {
      return std::nullopt;
    }
    std::lock_guard const guard(lock_);
    Block const* block = lists_[size_class].oldest();
    for (; place > 0 && block != nullptr; --place) {
      block = lists_[size_class].newer_than(*block);
    }
    if (block == nullptr) {
      return std::nullopt;
    }
    order::PositionSet uses;
    for_each_use(*block, [&](order::Position use) { uses.add(use); });
    return uses;
  }
  /// Takes the given free block. Returns false if it is not in the cache.
  [[nodiscard]] bool take_this(Block* block) {
    std::lock_guard const guard(lock_);
    auto const& list = lists_[block->size_class];
    Block* found = list.newest();
    while (found != nullptr && found != block) {
      found = list.older_than(*found);
    }
    return found != nullptr && take(found) != nullptr;
  }
  void put(Block* block) noexcept {
    std::lock_guard const guard(lock_);
    append(block);
  }

  /// Marks a block that is in no list as in use by the stream. `waits` says whether the stream
  /// waits for the last uses of the block.
  void use(Block& block, DeviceOwner const& device, bool waits) {
    std::lock_guard const guard(lock_);
    begin_use(block, device);
    account_.counts.waiting_reuses += waits ? 1 : 0;
  }
  /// Ends the use of a block and, if the block is small, adds it to the free ones. Returns a
  /// reference to the device, which the caller must drop when it has finished with the pool.
  [[nodiscard]] DeviceOwner end_use(Block* block) noexcept {
    std::shared_ptr<std::string const> scope;  // destroyed after the lock is released
    std::lock_guard const guard(lock_);
    scope.swap(block->scope);
    in_use_.remove(*block);
    pool_live_.subtract(live_, block->bytes);
    if (block->size_class != SizeClass::kNone) {
      append(block);
    }
    return abandoned_ && in_use_.empty() ? std::exchange(device_, nullptr) : nullptr;
  }

  [[nodiscard]] Rivalry& rivalry() noexcept { return rivalry_; }
  /// Returns the count of the stream's bytes in use, which the pool adds to its LiveBytes.
  [[nodiscard]] LiveBytes::Part& live() noexcept { return live_; }
  /// Sets whether only blocks in use keep the device alive. Returns a reference to the device that
  /// the caller must drop.
  [[nodiscard]] DeviceOwner set_abandoned(bool abandoned) {
    std::lock_guard const guard(lock_);
    abandoned_ = abandoned;
    return abandoned_ && in_use_.empty() ? std::exchange(device_, nullptr) : nullptr;
  }
  /// Calls `visit(block)` for each block in use, the newest first, with the cache's lock held.
  template <class Visit>
  void for_each_in_use(Visit&& visit) const {
    std::lock_guard const guard(lock_);
    for (Block* block = in_use_.newest(); block != nullptr; block = in_use_.older_than(*block)) {
      visit(*block);
    }
  }
  /// Calls `visit(block)` for each free block, with the cache's lock held.
  template <class Visit>
  void for_each_cached(Visit&& visit) const {
    std::lock_guard const guard(lock_);
    for (auto const& list : lists_) {
      for (Block const* block = list.oldest(); block != nullptr; block = list.newer_than(*block)) {
        visit(*block);
      }
    }
  }
  [[nodiscard]] Account account() const {
    std::lock_guard const guard(lock_);
    auto account = account_;
    account.live_bytes = live_.bytes();
    return account;
  }

 private:
  void append(Block* block) noexcept {
    lists_[block->size_class].add(*block);
    occupied_.insert(block->size_class);
  }
  Block* take(Block* block) noexcept {
    auto& list = lists_[block->size_class];
    list.remove(*block);
    if (list.empty()) {
      occupied_.erase(block->size_class);
    }
    return block;
  }
  template <class Ready, class Over>
  Block* find_ready(std::size_t size_class, Ready& ready, Over& over) {
    auto const& list = lists_[size_class];
    Block* block = list.newest();
    for (std::size_t look = 0; look < kLooks && block != nullptr; ++look) {
      if (ready(*block)) {
        return take(block);
      }
      block = list.older_than(*block);
    }
    return !list.empty() && over(*list.oldest()) ? take(list.oldest()) : nullptr;
  }
  void begin_use(Block& block, DeviceOwner const& device) {
    if (device_ == nullptr) {
      device_ = device;
    }
    block.device = &device_;
    if (NameScope::is_open()) [[unlikely]] {
      block.scope = NameScope::kept();
    }
    in_use_.add(block);
    count(block);
    pool_live_.add(live_, block.bytes);
    account_.peak_live_bytes = std::max(account_.peak_live_bytes, live_.bytes());
  }
  void count(Block const& block) noexcept {
    bool const is_own = all_uses(block, [&](order::Position use) { return use.stream == stream_; });
    ++account_.counts.allocations;
    account_.counts.reuses += block.record.log.empty() ? 0 : 1;
    account_.counts.steals += is_own ? 0 : 1;
  }

  LiveBytes& pool_live_;
  order::StreamIndex const stream_;
  mutable detail::SpinLock lock_;
  bool abandoned_ = false;
  DeviceOwner device_;  ///< kept while a block is in use or the device is not abandoned
  BlockList in_use_;
  LiveBytes::Part live_;
  Account account_;  ///< the account, except for the live bytes
  std::array<BlockList, SizeClass::kSmallCount> lists_;
  Occupied<SizeClass::kSmallCount> occupied_;
  Rivalry rivalry_;
};

}  // namespace msstream::memory
