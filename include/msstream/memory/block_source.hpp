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
#include <msstream/runtime/observing.hpp>
#include <msstream/stream/stream_context.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace msstream::memory {

enum class Space : std::uint8_t { device, pinned };

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
        space_(space),
        capacity_(std::move(capacity)),
        growth_bytes_(growth_bytes),
        history_(std::move(history)),
        range_(*context_->runtime, space == Space::device ? capacity_->limit_bytes() : 0) {
    if (range_.bytes() != 0) {
      auto const lock = lock_with_spares();
      arena_.reserve(range_.begin(), range_.bytes());
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
    if (range_.bytes() != 0) {
      for_each_free([&](Block<R> const* block) { forget(block->data, block->bytes); });
    }
    for (auto const& piece : pieces_) {
      free_piece(piece);
      capacity_->give_back(piece.bytes);
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
    auto& lent = lent_.of(stream);
    lent.provide_spares();
    auto const lock = lock_with_spares();
    return lend_if_any(arena_.take(bytes, ready), lent);
  }
  /// The same of the block that costs least.
  template <class Cost>
  bool lend_cheapest(std::size_t bytes, StreamSlot<R> const& stream, Cost&& cost) {
    auto& lent = lent_.of(stream);
    lent.provide_spares();
    auto const lock = lock_with_spares();
    Block<R>* const found = arena_.cheapest(bytes, cost);
    return lend_if_any(found != nullptr ? arena_.take_from(found, bytes) : nullptr, lent);
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
    Block<R>* const found = arena_.cheapest(bytes, cost);
    return found != nullptr ? arena_.take_from(found, bytes) : nullptr;
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
    bool const is_paged = range_.bytes() != 0;
    if (is_paged && !capacity_->has_room(range_.page_bytes(), limit_bytes)) {
      return nullptr;  // without the lock, which others may have for long
    }
    std::lock_guard const changing(change_mutex_);
    if (auto* const found = take(bytes, stream, ready)) {
      return found;  // another thread grew, or gave back, meanwhile
    }
    if (!is_paged) {
      return grow_by_piece(bytes, limit_bytes);
    }
    return extend(bytes, ready, [&](Span addresses, std::size_t needed, Populated& populated) {
      auto const preferred = std::clamp(range_.in_pages(growth_bytes_), needed, addresses.bytes);
      for (auto const amount : {preferred, needed}) {
        if (populated.bytes == 0 && map(addresses.begin, amount, limit_bytes)) {
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
    while (capacity_->reserved_bytes() > bytes) {
      auto const excess = capacity_->reserved_bytes() - bytes;
      auto const given = range_.bytes() != 0 ? unmap_idle(excess, over) : release_idle_piece(over);
      if (given == 0) {
        return;
      }
      leave_moved(over);  // or the runtime would still have it
      capacity_->give_back(given);
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
    std::lock_guard const guard(mutex_);
    take_back_lent();
    arena_.join_neighbours([](auto const&, auto const&) { return true; });
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
  [[nodiscard]] Capacity& capacity() const noexcept { return *capacity_; }
  [[nodiscard]] std::uint64_t growths() const noexcept { return growths_.load(); }

 private:
  static constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();

  struct Span {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };
  /// Memory that addresses have got, and the uses that its next owner must follow.
  struct Populated {
    std::size_t bytes = 0;
    order::AccessLog uses;
  };

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
  /// The caller has the lock, and a used block or none.
  bool lend_if_any(Block<R>* block, LentMemory<R>& lent) noexcept {
    bool const is_lent = block != nullptr && lent.add(block);
    if (block != nullptr && !is_lent) {
      arena_.put(block, joins_for_free());
    }
    return is_lent;
  }
  /// The caller has the lock.
  void take_back_lent() noexcept {
    lent_.for_each([this](LentMemory<R>& lent) { lent.give_back(arena_); });
  }

  template <class Over, class Ready, class Usable>
  Block<R>* gather_locked(std::size_t bytes, Over& over, Ready& ready, Usable& usable) {
    if (range_.bytes() == 0) {
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
    arena_.choose_unpopulated(range_.in_pages(bytes));
    Block<R>* const last = arena_.take_last(
        [&](Block<R> const& block) { return block.bytes < bytes && ready(block); });
    Span const rest = arena_.unpopulated() != nullptr
                          ? Span{arena_.unpopulated()->data, arena_.unpopulated()->bytes}
                          : Span{};
    lock.unlock();

    std::size_t const needed = range_.in_pages(bytes - (last != nullptr ? last->bytes : 0));
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

  bool map(std::byte* at, std::size_t bytes, std::size_t limit_bytes) {
    if (!capacity_->take(bytes, limit_bytes)) {
      return false;
    }
    try {
      range_.map(at, bytes);
      observe::memory_pooled(runtime(), at, bytes);
    } catch (OutOfMemory const&) {
      capacity_->give_back(bytes);
      return false;
    } catch (...) {
      capacity_->give_back(bytes);
      throw;
    }
    growths_.fetch_add(1, std::memory_order_relaxed);
    note(MemoryEvent::Kind::grow, at, bytes);
    return true;
  }

  /// Where gathered pages go.
  [[nodiscard]] bool is_last(Block<R> const& block) const noexcept {
    return block.arena.higher != nullptr && block.arena.higher == arena_.unpopulated();
  }
  /// The whole pages of a free block.
  [[nodiscard]] Span pages_of(Block<R> const& block) const noexcept {
    auto const before = static_cast<std::size_t>(block.data - range_.begin());
    auto const begin = range_.in_pages(before);
    auto const end = (before + block.bytes) / range_.page_bytes() * range_.page_bytes();
    return begin < end ? Span{range_.begin() + begin, end - begin} : Span{};
  }
  template <class Usable>
  std::size_t free_page_bytes(Usable& usable) const {
    std::size_t total = 0;
    std::lock_guard const guard(mutex_);
    arena_.for_each_free([&](Block<R>* block) {
      auto const pages = pages_of(*block);
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
        pages = pages_of(*block);
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
      range_.move(to, pages->data, pages->bytes);
    } catch (OutOfMemory const&) {
      put(pages);
      return false;
    } catch (...) {
      put(pages);
      throw;
    }
    moved_.push_back(pages);
    note(MemoryEvent::Kind::move, to, pages->bytes);
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
      range_.leave(pages->data, pages->bytes);
      std::lock_guard const guard(mutex_);
      arena_.vacate(pages);
      return true;
    });
    moved_.erase(left, moved_.end());
  }
  void forget(std::byte* at, std::size_t bytes) noexcept {
    if (bytes != 0) {
      range_.unmap(at, bytes);
      capacity_->give_back(bytes);
      note(MemoryEvent::Kind::release, at, bytes);
    }
  }
  void note(MemoryEvent::Kind kind, std::byte const* at, std::size_t bytes) noexcept {
    if (history_ != nullptr) {
      history_->note({0, kind, reinterpret_cast<std::uintptr_t>(at), bytes, 0, nullptr});
    }
  }
  template <class Over>
  std::size_t unmap_idle(std::size_t most_bytes, Over& over) {
    Block<R>* const pages = take_pages(range_.in_pages(most_bytes), over);
    if (pages == nullptr) {
      return 0;
    }
    auto const bytes = pages->bytes;
    range_.unmap(pages->data, bytes);
    note(MemoryEvent::Kind::release, pages->data, bytes);
    std::lock_guard const guard(mutex_);
    arena_.vacate(pages);
    return bytes;
  }

  Block<R>* grow_by_piece(std::size_t bytes, std::size_t limit_bytes) {
    for (std::size_t const amount : {std::max(bytes, growth_bytes_), bytes}) {
      if (auto* const memory = obtain(amount, limit_bytes)) {
        auto const lock = lock_with_spares();
        return arena_.take_from(arena_.add(memory, amount), bytes);
      }
    }
    return nullptr;
  }
  /// Null: there is no such memory, under the limit or at all.
  std::byte* obtain(std::size_t bytes, std::size_t limit_bytes) {
    if (!capacity_->take(bytes, limit_bytes)) {
      return nullptr;
    }
    Span piece{nullptr, bytes};
    try {
      piece.begin =
          static_cast<std::byte*>(space_ == Space::device ? runtime().allocate_device(bytes)
                                                          : runtime().allocate_pinned(bytes));
      observe::memory_pooled(runtime(), piece.begin, bytes);
      pieces_.push_back(piece);
    } catch (OutOfMemory const&) {
      capacity_->give_back(bytes);
      return nullptr;
    } catch (...) {
      if (piece.begin != nullptr) {
        free_piece(piece);
      }
      capacity_->give_back(bytes);
      throw;
    }
    growths_.fetch_add(1, std::memory_order_relaxed);
    note(MemoryEvent::Kind::grow, piece.begin, bytes);
    return piece.begin;
  }
  template <class Over>
  std::size_t release_idle_piece(Over& over) {
    auto const place = std::find_if(pieces_.begin(), pieces_.end(), [&](Span const& piece) {
      auto const lock = lock_with_spares();
      Block<R>* whole = nullptr;
      arena_.for_each_free([&](Block<R>* block) {
        if (block->data == piece.begin && block->bytes == piece.bytes &&
            over(std::as_const(*block))) {
          whole = block;
        }
      });
      if (whole != nullptr) {
        arena_.remove(whole);
      }
      return whole != nullptr;
    });
    if (place == pieces_.end()) {
      return 0;
    }
    Span const piece = *place;
    pieces_.erase(place);
    free_piece(piece);
    note(MemoryEvent::Kind::release, piece.begin, piece.bytes);
    return piece.bytes;
  }
  void free_piece(Span const& piece) noexcept {
    if (space_ == Space::device) {
      runtime().free_device(piece.begin, piece.bytes);
    } else {
      runtime().free_pinned(piece.begin, piece.bytes);
    }
  }

  std::shared_ptr<StreamContext<R>> context_;
  Space space_;
  std::shared_ptr<Capacity> capacity_;
  std::size_t growth_bytes_;
  std::shared_ptr<MemoryHistory> history_;  ///< null: nobody wants to know

  mutable std::mutex change_mutex_;  ///< guards the range's memory, the moved pages and the pieces
  PageRange<R> range_;
  std::vector<Block<R>*> moved_;  ///< old addresses, in use on the device
  std::vector<Span> pieces_;

  alignas(64) mutable SpinLock mutex_;  ///< guards the arena
  Arena<R> arena_;
  alignas(64) LentMemories<R> lent_;
  Lately contention_;
  std::atomic<std::uint64_t> growths_{0};
};

}  // namespace msstream::memory
