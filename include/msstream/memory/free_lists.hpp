// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/spin_lock.hpp>
#include <msstream/memory/block.hpp>
#include <msstream/memory/size_class.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

namespace msstream::memory {

/// The free blocks that one stream allocated, a list a size class, oldest first. Thread-safe.
template <Runtime R>
class FreeLists {
 public:
  void put(Block<R>* block) {
    std::lock_guard const guard(lock_);
    lists_[block->size_class].push_back(block);
  }

  /// A block that is `ready`, from the newest, which are likely in cache; or else the oldest, if it
  /// is `over`. Null when there is none.
  template <class Ready, class Over>
  [[nodiscard]] Block<R>* take_ready(std::size_t size_class, Ready&& ready, Over&& over) {
    std::lock_guard const guard(lock_);
    auto& list = lists_[size_class];
    std::size_t const looks = std::min(list.size(), kLooks);
    for (std::size_t look = 0; look < looks; ++look) {
      auto const place = list.end() - 1 - static_cast<std::ptrdiff_t>(look);
      if (ready(**place)) {
        return take(list, place);
      }
    }
    if (!list.empty() && over(*list.front())) {
      return take(list, list.begin());
    }
    return nullptr;
  }
  /// A block that is `over`, from the oldest, which are the likeliest to be. Null when there is
  /// none.
  template <class Over>
  [[nodiscard]] Block<R>* take_over(std::size_t size_class, Over&& over) {
    std::lock_guard const guard(lock_);
    auto& list = lists_[size_class];
    auto const end = list.begin() + static_cast<std::ptrdiff_t>(std::min(list.size(), kLooks));
    auto const found = std::find_if(list.begin(), end, [&](auto* block) { return over(*block); });
    return found == end ? nullptr : take(list, found);
  }
  [[nodiscard]] Block<R>* take_oldest(std::size_t size_class) {
    std::lock_guard const guard(lock_);
    auto& list = lists_[size_class];
    return list.empty() ? nullptr : take(list, list.begin());
  }
  /// False when the block is not here, or not `over`.
  template <class Over>
  [[nodiscard]] bool take_this(Block<R>* block, Over&& over) {
    std::lock_guard const guard(lock_);
    auto& list = lists_[block->size_class];
    auto const found = std::find(list.begin(), list.end(), block);
    if (found == list.end() || !over(*block)) {
      return false;
    }
    list.erase(found);
    return true;
  }

 private:
  using List = std::vector<Block<R>*>;

  static constexpr std::size_t kLooks = 8;

  static Block<R>* take(List& list, typename List::iterator place) {
    Block<R>* const block = *place;
    list.erase(place);
    return block;
  }

  SpinLock lock_;
  std::array<List, SizeClass::kCount> lists_;
};

}  // namespace msstream::memory
