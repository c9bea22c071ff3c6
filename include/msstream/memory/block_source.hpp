// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/spin_lock.hpp>
#include <msstream/memory/arena.hpp>
#include <msstream/memory/block.hpp>
#include <msstream/memory/block_uses.hpp>
#include <msstream/memory/capacity.hpp>
#include <msstream/memory/lately.hpp>
#include <msstream/memory/lent_memory.hpp>
#include <msstream/memory/memory_history.hpp>
#include <msstream/memory/page_range.hpp>
#include <msstream/memory/runtime_memory.hpp>
#include <msstream/runtime/observing.hpp>
#include <msstream/stream/stream_context.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::memory {

/// Takes memory from the runtime, under a limit, and cuts blocks of any size from it. Owns both.
///
/// Where the runtime has pages, all memory is in one range of addresses, so that neighbours join
/// however they were taken, and pages that lie free apart from each other can be put together.
/// Elsewhere it comes in pieces. Thread-safe. The lock for the blocks is held for no call of the
/// runtime and, but for uses by many streams, no allocation; what changes the memory has a lock of
/// its own.
template <Runtime R>
class BlockSource {
 public:
  BlockSource(std::shared_ptr<StreamContext<R>> context,
              Space space,
              std::shared_ptr<Capacity> capacity,
              std::size_t growth_bytes,
              std::shared_ptr<MemoryHistory> history = nullptr)
      : context_(std::move(context)),
        growth_bytes_(growth_bytes),
        memory_(*context_->runtime, space, std::move(capacity), std::move(history)) {
    if (is_paged()) {
      auto const lock = lock_with_spares();
      arena_.reserve(range().begin(), range().bytes());
    }
  }
  BlockSource(BlockSource const&) = delete;
  BlockSource& operator=(BlockSource const&) = delete;
  /// All blocks are free. Waits for their last uses.
  ~BlockSource() {
    for_each_free([&](Block<R>* block) {
      for_each_use(*block, [&](order::Position use) { context_->tracker->finish(use); });
      block->record.log = {};
    });
    leave_moved([&](Block<R> const& block) {
      for_each_use(block, [&](order::Position use) { context_->tracker->finish(use); });
      return true;
    });
    take_back_and_join_all();  // so that no two blocks have a part each of a page
    if (is_paged()) {
      for_each_free([&](Block<R> const* block) { forget(block->data, block->bytes); });
    }
  }

  /// The free block that fits best of those that are `ready(block)`, cut to `bytes`, of what the
  /// stream's group has been lent if there is one. Null when there is none.
  template <class Ready>
  [[nodiscard]] Block<R>* take(std::size_t bytes, StreamSlot<R> const& stream, Ready&& ready) {
    auto& lent = lent_.of(stream);
    if (auto* const block = lent.take(bytes, ready)) {
      return block;
    }
    auto const lock = lock_with_spares_for(lent);
    return arena_.take(bytes, ready);
  }
  /// The same of what nobody has been lent.
  template <class Ready>
  [[nodiscard]] Block<R>* take_common(std::size_t bytes, Ready&& ready) {
    auto const lock = lock_with_spares();
    return arena_.take(bytes, ready);
  }
  /// The same of what any group has been lent, for who would else have to wait.
  template <class Ready>
  [[nodiscard]] Block<R>* take_lent(std::size_t bytes, Ready&& ready) {
    Block<R>* found = nullptr;
    lent_.for_each(
        [&](LentMemory<R>& lent) { found = found != nullptr ? found : lent.take(bytes, ready); });
    return found;
  }
  /// Whether the stream's group has often met others at the lock since a call said so.
  [[nodiscard]] bool take_much_contention(StreamSlot<R> const& stream) {
    if (!lent_.of(stream).take_much_contention()) [[likely]] {
      return false;
    }
    contention_.note();
    return true;
  }
  /// Whether any group has of late.
  [[nodiscard]] bool is_contended() const noexcept { return contention_.has_happened(); }
  /// From here on the stream's group alone has a free block of so many bytes that is
  /// `ready(block)`, until somebody finds no memory. False: there is none, or the group has enough.
  template <class Ready>
  bool lend(std::size_t bytes, StreamSlot<R> const& stream, Ready&& ready) {
    return lend_found(stream, [&] { return arena_.take(bytes, ready); });
  }
  /// The same of the block that costs least.
  template <class Cost>
  bool lend_cheapest(std::size_t bytes, StreamSlot<R> const& stream, Cost&& cost) {
    return lend_found(stream, [&] { return take_cheapest_of_arena(bytes, cost); });
  }
  /// The same of one that is gathered from all that is free.
  template <class Over, class Ready>
  bool lend_gathered(std::size_t bytes, StreamSlot<R> const& stream, Over&& over, Ready&& ready) {
    Block<R>* const block = gather(bytes, over, ready, [](auto const&) { return true; });
    try {
      return block != nullptr && lend_found(stream, [&] { return block; });
    } catch (...) {
      put(block);
      throw;
    }
  }
  /// Of what the stream's group has been lent, to be waited for. Null when there is none.
  [[nodiscard]] Block<R>* take_own(std::size_t bytes, StreamSlot<R> const& stream) {
    return lent_.of(stream).take(bytes, [](auto const&) { return true; });
  }
  [[nodiscard]] LentMemories<R>& lent() noexcept { return lent_; }
  /// The free block that costs least, `cost(block)`, of those that fit; the best fit of several.
  /// Null when there is none.
  template <class Cost>
  [[nodiscard]] Block<R>* take_cheapest(std::size_t bytes, Cost&& cost) {
    auto const lock = lock_with_spares();
    return take_cheapest_of_arena(bytes, cost);
  }
  /// The last uses of that block.
  template <class Cost>
  [[nodiscard]] order::PositionSet uses_of_cheapest(std::size_t bytes, Cost&& cost) const {
    order::PositionSet uses;
    std::lock_guard const guard(mutex_);
    if (auto const* const found = arena_.cheapest(bytes, cost)) {
      for_each_use(*found, [&](order::Position use) { uses.add(use); });
    }
    return uses;
  }
  /// The same from memory that is taken from the runtime, with what is free and ready before it.
  /// Null when the limit, or the lower one given, or the runtime has no more.
  template <class Ready>
  [[nodiscard]] Block<R>* grow(std::size_t bytes,
                               StreamSlot<R> const& stream,
                               std::size_t limit_bytes,
                               Ready&& ready) {
    if (is_paged() && !capacity().has_room(range().page_bytes(), limit_bytes)) {
      return nullptr;  // without the lock, which others may have for long
    }
    std::lock_guard const changing(change_mutex_);
    if (auto* const found = take(bytes, stream, ready)) {
      return found;  // another thread grew, or gave back, meanwhile
    }
    if (!is_paged()) {
      return grow_by_piece(bytes, limit_bytes);
    }
    return extend(bytes, ready, [&](Span addresses, std::size_t needed, Populated& populated) {
      auto const preferred = std::clamp(range().in_pages(growth_bytes_), needed, addresses.bytes);
      for (auto const amount : {preferred, needed}) {
        if (populated.bytes == 0 && memory_.map(addresses.begin, amount, limit_bytes)) {
          populated.bytes = amount;
        }
      }
    });
  }
  /// The same from pages that lie free apart from each other in blocks that are `usable(block)`,
  /// those first whose uses are `over(block)`, then those that are `ready(block)`: pages that are
  /// not over keep their old addresses for the work that still uses them, and the block that is
  /// returned follows it. Null when there are not enough, or the runtime has no pages.
  template <class Over, class Ready, class Usable>
  [[nodiscard]] Block<R>* gather(std::size_t bytes, Over&& over, Ready&& ready, Usable&& usable) {
    std::lock_guard const changing(change_mutex_);
    return gather_locked(bytes, over, ready, usable);
  }
  /// The same of what is over or ready, where no other thread is about to change the memory.
  template <class Over, class Ready>
  [[nodiscard]] Block<R>* try_gather(std::size_t bytes, Over&& over, Ready&& ready) {
    std::unique_lock const changing(change_mutex_, std::try_to_lock);
    return changing.owns_lock() ? gather_locked(bytes, over, ready, ready) : nullptr;
  }
  /// Gives free memory whose uses are `over(block)` back to the runtime until no more than `bytes`
  /// are reserved.
  template <class Over>
  void trim(std::size_t bytes, Over&& over) {
    std::lock_guard const changing(change_mutex_);
    leave_moved(over);
    {
      std::lock_guard const guard(mutex_);
      take_back_lent();
      arena_.join_neighbours(joins_for_free());  // two parts of a page are no page
    }
    while (capacity().reserved_bytes() > bytes) {
      auto const excess = capacity().reserved_bytes() - bytes;
      auto const given = is_paged() ? unmap_idle(excess, over) : free_idle_piece(over);
      if (given == 0) {
        return;
      }
      leave_moved(over);  // or the runtime would still have it
      capacity().give_back(given);
    }
  }
  /// Joined with its neighbours where that takes little from anybody: what two streams still use,
  /// each a part, no stream could use without a wait.
  void put(Block<R>* block) noexcept {
    auto* const lent = block->lent_to.load(std::memory_order_acquire);
    if (lent != nullptr && lent->put(block)) {
      return;
    }
    std::lock_guard const guard(mutex_);
    arena_.put(block, joins_for_free());
  }
  void join_what_is_over() noexcept {
    std::lock_guard const guard(mutex_);
    arena_.join_neighbours(joins_for_free());
  }
  /// Whoever used them.
  void join_all() noexcept {
    std::lock_guard const guard(mutex_);
    arena_.join_neighbours([](auto const&, auto const&) { return true; });
  }
  /// The same of what groups have been lent, too, who then have nothing.
  void take_back_and_join_all() noexcept {
    {
      std::lock_guard const guard(mutex_);
      take_back_lent();
    }
    join_all();
  }

  /// `visit(block)` for old addresses of pages that the device still uses.
  template <class Visit>
  void for_each_moved(Visit&& visit) const {
    std::lock_guard const changing(change_mutex_);
    std::for_each(moved_.begin(), moved_.end(), visit);
  }
  /// `visit(block)` for each free block, under the lock.
  template <class Visit>
  void for_each_free(Visit&& visit) const {
    std::lock_guard const guard(mutex_);
    arena_.for_each_free(visit);
    lent_.for_each([&](LentMemory<R> const& lent) { lent.for_each_free(visit); });
  }
  [[nodiscard]] std::size_t largest_free_bytes() const noexcept {
    std::lock_guard const guard(mutex_);
    return arena_.largest_free_bytes();
  }
  [[nodiscard]] R& runtime() const noexcept { return *context_->runtime; }
  [[nodiscard]] Capacity& capacity() const noexcept { return memory_.capacity(); }
  [[nodiscard]] std::uint64_t growths() const noexcept { return memory_.growths(); }

 private:
  static constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();

  using Span = typename PageRange<R>::Span;
  /// Memory that addresses have got, and the uses that its next owner must follow.
  struct Populated {
    std::size_t bytes = 0;
    order::AccessLog uses;
  };

  [[nodiscard]] PageRange<R> const& range() const noexcept { return memory_.range(); }
  [[nodiscard]] bool is_paged() const noexcept { return range().bytes() != 0; }
  [[nodiscard]] std::unique_lock<SpinLock> lock_with_spares() {
    return with_spares(std::unique_lock(mutex_), arena_);
  }
  /// For a group, which gets memory lent when this lock is often taken.
  [[nodiscard]] std::unique_lock<SpinLock> lock_with_spares_for(LentMemory<R>& lent) {
    std::unique_lock<SpinLock> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      lent.note_contention();
      lock.lock();
    }
    return with_spares(std::move(lock), arena_);
  }
  /// What `find()` gives, a used block or null, under the lock.
  template <class Find>
  bool lend_found(StreamSlot<R> const& stream, Find&& find) {
    auto& lent = lent_.of(stream);
    lent.provide_spares();
    auto const lock = lock_with_spares();
    Block<R>* const block = find();
    bool const is_lent = block != nullptr && lent.add(block);
    if (block != nullptr && !is_lent) {
      arena_.put(block, joins_for_free());
    }
    return is_lent;
  }
  /// The caller has the lock.
  template <class Cost>
  Block<R>* take_cheapest_of_arena(std::size_t bytes, Cost& cost) {
    Block<R>* const found = arena_.cheapest(bytes, cost);
    return found != nullptr ? arena_.take_from(found, bytes) : nullptr;
  }
  /// The caller has the lock.
  void take_back_lent() noexcept {
    lent_.for_each([this](LentMemory<R>& lent) { lent.give_back(arena_); });
  }

  template <class Over, class Ready, class Usable>
  Block<R>* gather_locked(std::size_t bytes, Over& over, Ready& ready, Usable& usable) {
    if (!is_paged()) {
      return nullptr;
    }
    leave_moved(over);
    auto* const block =
        extend(bytes, usable, [&](Span addresses, std::size_t needed, Populated& populated) {
          if (free_page_bytes(usable) >= needed) {
            move_pages(addresses.begin, needed, over, ready, usable, populated);
          }
        });
    leave_moved(over);  // not before: what is left becomes absent, and joins the absent range
    return block;
  }
  /// `provide(addresses, needed, populated)` puts at least `needed` bytes of memory behind the
  /// first of the addresses, which follow the last free block. What is less stays free.
  template <class Ready, class Provide>
  Block<R>* extend(std::size_t bytes, Ready& ready, Provide&& provide) {
    auto lock = lock_with_spares();
    arena_.choose_unpopulated(range().in_pages(bytes));
    Block<R>* const last = arena_.take_last(
        [&](Block<R> const& block) { return block.bytes < bytes && ready(block); });
    Span const rest = arena_.unpopulated() != nullptr
                          ? Span{arena_.unpopulated()->data, arena_.unpopulated()->bytes}
                          : Span{};
    lock.unlock();

    std::size_t const needed = range().in_pages(bytes - (last != nullptr ? last->bytes : 0));
    Populated populated;
    try {
      if (needed <= rest.bytes) {
        provide(rest, needed, populated);
      }
    } catch (...) {
      put_if_any(add_populated(last, rest.begin, populated, kWhole));
      throw;
    }
    bool const is_enough = populated.bytes >= needed;
    auto* const block = add_populated(last, rest.begin, populated, is_enough ? bytes : kWhole);
    if (!is_enough) {
      put_if_any(block);
      return nullptr;
    }
    return block;
  }
  /// The last block, if any, with what was populated behind it, cut to `bytes`.
  Block<R>* add_populated(Block<R>* last, std::byte* at, Populated& populated, std::size_t bytes) {
    if (populated.bytes == 0) {
      return last;
    }
    try {
      if (last != nullptr) {
        last->record.log.note_all_of(populated.uses);
      }
      auto const lock = lock_with_spares();
      return arena_.populate(last, populated.bytes, bytes, std::move(populated.uses));
    } catch (...) {
      forget(at, populated.bytes);
      put_if_any(last);
      throw;
    }
  }
  [[nodiscard]] auto joins_for_free() const noexcept {
    return [this](Block<R> const& lower, Block<R> const& higher) {
      return is_joined_cheaply(lower, higher, [this](order::Position use) {
        return context_->tracker->is_known_complete(use);
      });
    };
  }
  void put_if_any(Block<R>* block) noexcept {
    if (block != nullptr) {
      put(block);
    }
  }

  /// Where gathered pages go.
  [[nodiscard]] bool is_last(Block<R> const& block) const noexcept {
    return block.arena.higher != nullptr && block.arena.higher == arena_.unpopulated();
  }
  template <class Usable>
  std::size_t free_page_bytes(Usable& usable) const {
    std::size_t total = 0;
    std::lock_guard const guard(mutex_);
    arena_.for_each_free([&](Block<R>* block) {
      auto const pages = range().pages_in(block->data, block->bytes);
      if (!is_last(*block) && pages.bytes != 0 && usable(std::as_const(*block))) {
        total += pages.bytes;
      }
    });
    return total;
  }
  /// Up to `most_bytes` of pages in a row, in use from here on, of the smallest free block that is
  /// usable and has some: larger ones are more likely to fit. Null: there is none.
  template <class Usable>
  Block<R>* take_pages(std::size_t most_bytes, Usable&& usable) {
    auto const lock = lock_with_spares();
    Block<R>* chosen = nullptr;
    Span pages;
    arena_.for_each_free([&](Block<R>* block) {
      if (chosen == nullptr) {
        pages = range().pages_in(block->data, block->bytes);
        chosen = pages.bytes != 0 && usable(std::as_const(*block)) ? block : nullptr;
      }
    });
    return chosen != nullptr
               ? arena_.take_part(chosen, pages.begin, std::min(pages.bytes, most_bytes))
               : nullptr;
  }
  /// As many as are needed, or fewer where others have taken some meanwhile or the runtime has no
  /// memory to note it.
  template <class Over, class Ready, class Usable>
  void move_pages(std::byte* to,
                  std::size_t needed,
                  Over& over,
                  Ready& ready,
                  Usable& usable,
                  Populated& moved) {
    auto const take = [&](auto& wanted) {
      return take_pages(needed - moved.bytes,
                        [&](Block<R> const& block) { return !is_last(block) && wanted(block); });
    };
    while (moved.bytes < needed) {
      Block<R>* pages = take(over);
      pages = pages != nullptr ? pages : take(ready);
      pages = pages != nullptr ? pages : take(usable);
      if (pages == nullptr || !move_or_put_back(to + moved.bytes, pages, moved.uses)) {
        return;
      }
      moved.bytes += pages->bytes;
    }
  }
  bool move_or_put_back(std::byte* to, Block<R>* pages, order::AccessLog& uses) {
    try {
      uses.note_all_of(pages->record.log);
      moved_.reserve(moved_.size() + 1);
      memory_.move(to, pages->data, pages->bytes);
    } catch (OutOfMemory const&) {
      put(pages);
      return false;
    } catch (...) {
      put(pages);
      throw;
    }
    moved_.push_back(pages);
    observe::memory_pooled(runtime(), to, pages->bytes);
    return true;
  }
  /// Those whose uses are `over(block)` have no memory at their old addresses any more.
  template <class Over>
  void leave_moved(Over&& over) {
    auto const left = std::remove_if(moved_.begin(), moved_.end(), [&](Block<R>* pages) {
      if (!over(std::as_const(*pages))) {
        return false;
      }
      memory_.leave(pages->data, pages->bytes);
      std::lock_guard const guard(mutex_);
      arena_.vacate(pages);
      return true;
    });
    moved_.erase(left, moved_.end());
  }
  void forget(std::byte* at, std::size_t bytes) noexcept {
    if (bytes != 0) {
      memory_.unmap(at, bytes);
      capacity().give_back(bytes);
    }
  }
  template <class Over>
  std::size_t unmap_idle(std::size_t most_bytes, Over& over) {
    Block<R>* const pages = take_pages(range().in_pages(most_bytes), over);
    if (pages == nullptr) {
      return 0;
    }
    auto const bytes = pages->bytes;
    memory_.unmap(pages->data, bytes);
    std::lock_guard const guard(mutex_);
    arena_.vacate(pages);
    return bytes;
  }

  Block<R>* grow_by_piece(std::size_t bytes, std::size_t limit_bytes) {
    for (std::size_t const amount : {std::max(bytes, growth_bytes_), bytes}) {
      if (auto* const memory = memory_.take_piece(amount, limit_bytes)) {
        auto const lock = lock_with_spares();
        return arena_.take_from(arena_.add(memory, amount), bytes);
      }
    }
    return nullptr;
  }
  template <class Over>
  std::size_t free_idle_piece(Over& over) {
    return memory_.free_piece([&](std::byte const* begin, std::size_t bytes) {
      auto const lock = lock_with_spares();
      Block<R>* whole = nullptr;
      arena_.for_each_free([&](Block<R>* block) {
        if (block->data == begin && block->bytes == bytes && over(std::as_const(*block))) {
          whole = block;
        }
      });
      if (whole != nullptr) {
        arena_.remove(whole);
      }
      return whole != nullptr;
    });
  }

  std::shared_ptr<StreamContext<R>> context_;
  std::size_t growth_bytes_;

  mutable std::mutex change_mutex_;  ///< guards the runtime's memory and the moved pages
  RuntimeMemory<R> memory_;
  std::vector<Block<R>*> moved_;  ///< old addresses, in use on the device

  alignas(64) mutable SpinLock mutex_;  ///< guards the arena
  Arena<R> arena_;
  alignas(64) LentMemories<R> lent_;
  Lately contention_;
};

}  // namespace msstream::memory
