// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/spin_lock.hpp>
#include <msstream/memory/block.hpp>
#include <msstream/memory/block_uses.hpp>
#include <msstream/memory/live_bytes.hpp>
#include <msstream/memory/occupied.hpp>
#include <msstream/memory/size_class.hpp>
#include <msstream/memory/statistics.hpp>
#include <msstream/order/position_set.hpp>
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
#include <vector>

namespace msstream::memory {

/// What one stream has of a pool: the free blocks that it allocated, a list a size class, oldest
/// first, and the account of those in use, which keep the device alive. Thread-safe; on the path
/// of a block that is there it is the only lock, and the stream's own.
template <Runtime R>
class alignas(64) StreamCache {
 public:
  struct Account : AllocationCounts {
    std::size_t live_bytes = 0;
    std::size_t peak_live_bytes = 0;
  };
  using DeviceOwner = std::shared_ptr<DeviceState<R>>;

  static constexpr std::size_t kLooks = 8;

  StreamCache(LiveBytes& pool_live, order::StreamIndex stream) noexcept
      : pool_live_(pool_live), stream_(stream) {}

  /// A free block that is `ready`, from the newest, which are likely in cache; or else the oldest,
  /// if it is `over`. Null when there is none.
  template <class Ready, class Over>
  [[nodiscard]] Block<R>* take_ready(std::size_t size_class, Ready&& ready, Over&& over) {
    if (occupied_.next(size_class) != size_class) {
      return nullptr;
    }
    std::lock_guard const guard(lock_);
    return find_ready(size_class, ready, over);
  }
  /// The same for the stream itself, of the class or one up to twice as large, which costs less
  /// than to ask others: the block is then in use.
  template <class Ready>
  [[nodiscard]] Block<R>* use_ready(std::size_t size_class,
                                    Ready&& ready,
                                    DeviceOwner const& device) {
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
  /// A block that is `over`, from the oldest, which are the likeliest to be. Null when there is
  /// none.
  template <class Over>
  [[nodiscard]] Block<R>* take_over(std::size_t size_class, Over&& over) {
    if (occupied_.next(size_class) != size_class) {
      return nullptr;
    }
    std::lock_guard const guard(lock_);
    auto& list = lists_[size_class];
    auto const end = list.begin() + static_cast<std::ptrdiff_t>(std::min(list.size(), kLooks));
    auto const found = std::find_if(list.begin(), end, [&](auto* block) { return over(*block); });
    return found == end ? nullptr : take(size_class, found);
  }
  [[nodiscard]] Block<R>* take_oldest(std::size_t size_class) {
    if (occupied_.next(size_class) != size_class) {
      return nullptr;
    }
    std::lock_guard const guard(lock_);
    auto& list = lists_[size_class];
    return list.empty() ? nullptr : take(size_class, list.begin());
  }
  /// The last uses of the block at that place of the class, the oldest being at 0; null: there is
  /// none.
  [[nodiscard]] std::optional<order::PositionSet> uses_of(std::size_t size_class,
                                                          std::size_t place) const {
    if (occupied_.next(size_class) != size_class) {
      return std::nullopt;
    }
    std::lock_guard const guard(lock_);
    if (place >= lists_[size_class].size()) {
      return std::nullopt;
    }
    order::PositionSet uses;
    for_each_use(*lists_[size_class][place], [&](order::Position use) { uses.add(use); });
    return uses;
  }
  /// False when the block is not here.
  [[nodiscard]] bool take_this(Block<R>* block) {
    std::lock_guard const guard(lock_);
    auto& list = lists_[block->size_class];
    auto const found = std::find(list.begin(), list.end(), block);
    return found != list.end() && take(block->size_class, found) != nullptr;
  }
  void put(Block<R>* block) {
    std::lock_guard const guard(lock_);
    append(block);
  }

  /// The stream uses the block, which is in no list, from here on. `waits`: for its last uses.
  void use(Block<R>& block, DeviceOwner const& device, bool waits) {
    std::lock_guard const guard(lock_);
    begin_use(block, device);
    account_.waiting_reuses += waits ? 1 : 0;
  }
  /// The block is in use no more, and one of the free ones if it is small. Returns what the caller
  /// must let go when it has no more to do with the pool.
  [[nodiscard]] DeviceOwner end_use(Block<R>* block) {
    std::shared_ptr<std::string const> scope;  // goes when the lock is free
    std::lock_guard const guard(lock_);
    scope.swap(block->scope);
    unlink(*block);
    account_.live_bytes -= block->bytes;
    tell_if_much();
    if (block->size_class != SizeClass::kNone) {
      append(block);
    }
    return abandoned_ && in_use_ == nullptr ? std::exchange(device_, nullptr) : nullptr;
  }

  /// Whether nobody but what is in use needs the device. Returns what the caller must let go.
  [[nodiscard]] DeviceOwner set_abandoned(bool abandoned) {
    std::lock_guard const guard(lock_);
    abandoned_ = abandoned;
    return abandoned_ && in_use_ == nullptr ? std::exchange(device_, nullptr) : nullptr;
  }
  /// `visit(block)` for each that is in use, the newest first, under the lock.
  template <class Visit>
  void for_each_in_use(Visit&& visit) const {
    std::lock_guard const guard(lock_);
    for (Block<R>* block = in_use_; block != nullptr; block = block->arena.older) {
      visit(*block);
    }
  }
  /// The same for each that is free.
  template <class Visit>
  void for_each_cached(Visit&& visit) const {
    std::lock_guard const guard(lock_);
    for (auto const& list : lists_) {
      for (Block<R> const* block : list) {
        visit(*block);
      }
    }
  }
  [[nodiscard]] Account account() const {
    std::lock_guard const guard(lock_);
    return account_;
  }

 private:
  using List = std::vector<Block<R>*>;

  void append(Block<R>* block) {
    lists_[block->size_class].push_back(block);
    occupied_.insert(block->size_class);
  }
  Block<R>* take(std::size_t size_class, typename List::iterator place) {
    auto& list = lists_[size_class];
    Block<R>* const block = *place;
    list.erase(place);
    if (list.empty()) {
      occupied_.erase(size_class);
    }
    return block;
  }
  template <class Ready, class Over>
  Block<R>* find_ready(std::size_t size_class, Ready& ready, Over& over) {
    auto& list = lists_[size_class];
    std::size_t const looks = std::min(list.size(), kLooks);
    for (std::size_t look = 0; look < looks; ++look) {
      auto const place = list.end() - 1 - static_cast<std::ptrdiff_t>(look);
      if (ready(**place)) {
        return take(size_class, place);
      }
    }
    if (!list.empty() && over(*list.front())) {
      return take(size_class, list.begin());
    }
    return nullptr;
  }
  void begin_use(Block<R>& block, DeviceOwner const& device) {
    if (device_ == nullptr) {
      device_ = device;
    }
    block.device = &device_;
    block.scope = NameScope::kept();
    link(block);
    count(block);
    account_.live_bytes += block.bytes;
    account_.peak_live_bytes = std::max(account_.peak_live_bytes, account_.live_bytes);
    tell_if_much();
  }
  void count(Block<R> const& block) noexcept {
    bool is_used = false;
    bool is_of_another = false;
    for_each_use(block, [&](order::Position use) {
      is_used = true;
      is_of_another = is_of_another || use.stream != stream_;
    });
    ++account_.allocations;
    account_.reuses += is_used ? 1 : 0;
    account_.steals += is_of_another ? 1 : 0;
  }
  void link(Block<R>& block) noexcept {
    block.arena.newer = nullptr;
    block.arena.older = in_use_;
    if (in_use_ != nullptr) {
      in_use_->arena.newer = &block;
    }
    in_use_ = &block;
  }
  void unlink(Block<R>& block) noexcept {
    auto& links = block.arena;
    (links.newer != nullptr ? links.newer->arena.older : in_use_) = links.older;
    if (links.older != nullptr) {
      links.older->arena.newer = links.newer;
    }
  }
  void tell_if_much() noexcept {
    auto const now = account_.live_bytes;
    if (now > told_bytes_ + LiveBytes::kUntoldGrowth ||
        now + LiveBytes::kUntoldShrinkage < told_bytes_) {
      pool_live_.tell(std::exchange(told_bytes_, now), now);
    }
  }

  LiveBytes& pool_live_;
  order::StreamIndex const stream_;
  mutable SpinLock lock_;
  bool abandoned_ = false;
  DeviceOwner device_;          ///< while something is in use, or the device is not abandoned
  Block<R>* in_use_ = nullptr;  ///< the newest
  Account account_;
  std::size_t told_bytes_ = 0;
  std::array<List, SizeClass::kSmallCount> lists_;
  Occupied<SizeClass::kSmallCount> occupied_;
};

}  // namespace msstream::memory
