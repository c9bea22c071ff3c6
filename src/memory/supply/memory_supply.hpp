// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block.hpp"
#include "memory/blocks/block_uses.hpp"
#include "memory/reports/memory_history.hpp"
#include "memory/supply/capacity.hpp"
#include "memory/supply/common_arena.hpp"
#include "memory/supply/page_range.hpp"
#include "memory/supply/runtime_memory.hpp"
#include "stream/stream_context.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/detail/backend.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::memory {

/// Takes memory from the runtime for an arena, moves it within the arena, and releases it.
///
/// If the runtime has pages, all memory is in one range of addresses, so that neighbours join
/// however they were taken, and free pages that lie apart from each other can be put together.
/// Otherwise memory comes in pieces. Thread-safe: a lock of its own, not the arena's, guards
/// changes of the memory, and is held during calls of the runtime.
class MemorySupply {
 public:
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  /// Takes an empty `arena`, which must outlive it. Before another piece is taken, free pieces with
  /// complete uses are released until they have no more than `keep_bytes`.
  MemorySupply(std::shared_ptr<detail::StreamContext> context,
               Space space,
               std::shared_ptr<Capacity> capacity,
               std::size_t growth_bytes,
               std::shared_ptr<MemoryHistory> history,
               CommonArena& arena,
               std::size_t keep_bytes = kAll)
      : context_(std::move(context)),
        growth_bytes_(growth_bytes),
        keep_bytes_(keep_bytes),
        arena_(arena),
        memory_(*context_->runtime, space, std::move(capacity), std::move(history)) {
    if (is_paged()) {
      arena_.access_to_cut()->reserve(range().begin(), range().bytes(), range().page_bytes());
    }
  }
  MemorySupply(MemorySupply const&) = delete;
  MemorySupply& operator=(MemorySupply const&) = delete;
  /// Requires that all blocks are free, joined with their neighbours, and complete. Waits for the
  /// uses of moved pages.
  ~MemorySupply() {
    leave_moved([&](Block const& block) {
      for_each_use(block, [&](order::Position use) { context_->tracker->finish(use); });
      return true;
    });
    if (is_paged()) {
      arena_.for_each_free([&](Block const* block) { forget(block->data, block->bytes); });
    }
  }

  /// Takes memory from the runtime and cuts a block from it, together with the free block before it
  /// if that is `ready(block)`. Calls `find_again()` first, under the lock, and returns its block
  /// if there is one. Null if the limit, a lower `limit_bytes`, or the runtime has no more.
  template <class Ready, class FindAgain>
  [[nodiscard]] Block* grow(std::size_t bytes,
                            std::size_t limit_bytes,
                            Ready&& ready,
                            FindAgain&& find_again) {
    if (is_paged() && !capacity().has_room(range().page_bytes(), limit_bytes)) {
      return nullptr;  // checked without the lock, which may be held for long
    }
    std::lock_guard const changing(mutex_);
    if (Block* const found = find_again()) {
      return found;
    }
    if (!is_paged()) {
      release_idle_pieces(keep_bytes_, ready);
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
  /// Returns a block of free pages that lie apart from each other, in blocks that are
  /// `usable(block)`; first takes those whose uses are `over(block)`, then those that are
  /// `ready(block)`. Pages with incomplete uses keep their old addresses for that work, and the
  /// returned block follows it. Null if there are not enough pages, or the runtime has none.
  template <class Over, class Ready, class Usable>
  [[nodiscard]] Block* gather(std::size_t bytes, Over&& over, Ready&& ready, Usable&& usable) {
    std::lock_guard const changing(mutex_);
    return gather_locked(bytes, over, ready, usable);
  }
  /// Like gather(), but returns null if another thread is about to change the memory.
  template <class Over, class Ready, class Usable>
  [[nodiscard]] Block* try_gather(std::size_t bytes, Over&& over, Ready&& ready, Usable&& usable) {
    std::unique_lock const changing(mutex_, std::try_to_lock);
    return changing.owns_lock() ? gather_locked(bytes, over, ready, usable) : nullptr;
  }
  /// Whether the free pages in blocks that are `usable(block)`, with the pages that the limits have
  /// room for, are enough for `bytes`.
  template <class Usable>
  [[nodiscard]] bool has_pages_for(std::size_t bytes, Usable&& usable) const {
    if (!is_paged()) {
      return false;
    }
    auto const needed = range().in_pages(bytes);
    auto const free =
        free_page_bytes([&](auto const&, Block const& block) { return usable(block); });
    return capacity().has_room(needed - std::min(needed, free), capacity().limit_bytes());
  }
  /// Releases free memory whose uses are `over(block)` to the runtime until no more than `bytes`
  /// are reserved. `take_back()` first puts more free memory into the arena.
  template <class Over, class TakeBack>
  void trim(std::size_t bytes, Over&& over, TakeBack&& take_back) {
    std::lock_guard const changing(mutex_);
    leave_moved(over);
    take_back();
    arena_.join_what_is_over();  // free parts of a page must be joined to be released
    while (capacity().reserved_bytes() > bytes) {
      auto const excess = capacity().reserved_bytes() - bytes;
      auto const given = is_paged() ? unmap_idle(excess, over) : free_idle_piece(over);
      if (given == 0) {
        return;
      }
      leave_moved(over);  // memory is released only with its old addresses
      capacity().give_back(given);
    }
  }

  /// Calls `visit(block)` for the old addresses of moved pages that the device still uses.
  template <class Visit>
  void for_each_moved(Visit&& visit) const {
    std::lock_guard const changing(mutex_);
    std::for_each(moved_.begin(), moved_.end(), visit);
  }
  [[nodiscard]] Capacity& capacity() const noexcept { return memory_.capacity(); }
  [[nodiscard]] std::uint64_t growths() const noexcept { return memory_.growths(); }

 private:
  using Span = PageRange::Span;
  /// Memory that was put behind addresses, and the uses that its next owner must follow.
  struct Populated {
    std::size_t bytes = 0;
    order::AccessLog uses;
  };

  [[nodiscard]] PageRange const& range() const noexcept { return memory_.range(); }
  [[nodiscard]] bool is_paged() const noexcept { return range().bytes() != 0; }

  template <class Over, class Ready, class Usable>
  Block* gather_locked(std::size_t bytes, Over& over, Ready& ready, Usable& usable) {
    if (!is_paged()) {
      return nullptr;
    }
    leave_moved(over);
    auto* const block =
        extend(bytes, usable, [&](Span addresses, std::size_t needed, Populated& populated) {
          auto const is_usable = [&](Arena const& arena, Block const& free) {
            return !is_last(arena, free) && usable(free);
          };
          if (free_page_bytes(is_usable) >= needed) {
            move_pages(addresses.begin, needed, over, ready, usable, populated);
          }
        });
    leave_moved(over);  // after extend(), since left addresses join the absent range
    return block;
  }
  struct Last {
    Block* block;    ///< the last free block, now in use; null if there is none
    Span addresses;  ///< the addresses behind the block, without memory
  };
  /// Takes the last free block, to be extended, if it is shorter than `bytes` and `ready(block)`.
  template <class Ready>
  Last take_last(std::size_t bytes, Ready& ready) {
    auto const arena = arena_.access_to_cut();
    arena->choose_unpopulated(range().in_pages(bytes));
    Block* const block =
        arena->take_last([&](Block const& free) { return free.bytes < bytes && ready(free); });
    auto const* const rest = arena->unpopulated();
    return {block, rest != nullptr ? Span{rest->data, rest->bytes} : Span{}};
  }
  /// Extends the last free block to `bytes`. `provide(addresses, needed, populated)` should put at
  /// least `needed` bytes of memory behind the first of the addresses, which follow that block. If
  /// it provides less, the memory stays free, and the result is null.
  template <class Ready, class Provide>
  Block* extend(std::size_t bytes, Ready& ready, Provide&& provide) {
    auto const [last, rest] = take_last(bytes, ready);
    std::size_t const needed = range().in_pages(bytes - (last != nullptr ? last->bytes : 0));
    Populated populated;
    try {
      if (needed <= rest.bytes) {
        provide(rest, needed, populated);
      }
    } catch (...) {
      arena_.put_if_any(add_populated(last, rest.begin, populated, kAll));
      throw;
    }
    bool const is_enough = populated.bytes >= needed;
    auto* const block = add_populated(last, rest.begin, populated, is_enough ? bytes : kAll);
    if (!is_enough) {
      arena_.put_if_any(block);
      return nullptr;
    }
    return block;
  }
  /// Appends populated memory to the last block, if any. Returns the result, cut to `bytes`.
  Block* add_populated(Block* last, std::byte* at, Populated& populated, std::size_t bytes) {
    if (populated.bytes == 0) {
      return last;
    }
    try {
      if (last != nullptr) {
        last->record.log.note_all_of(populated.uses);
      }
      return arena_.access_to_cut()->populate(
          last, populated.bytes, bytes, std::move(populated.uses));
    } catch (...) {
      forget(at, populated.bytes);
      arena_.put_if_any(last);
      throw;
    }
  }
  /// Whether the free block is the one that gathered pages extend.
  [[nodiscard]] static bool is_last(Arena const& arena, Block const& block) noexcept {
    return block.arena.higher != nullptr && block.arena.higher == arena.unpopulated();
  }
  template <class Usable>
  std::size_t free_page_bytes(Usable&& usable) const {
    std::size_t total = 0;
    auto const arena = arena_.access();
    arena->for_each_free([&](Block* block) {
      auto const pages = range().pages_in(block->data, block->bytes);
      total += pages.bytes != 0 && usable(*arena, *block) ? pages.bytes : 0;
    });
    return total;
  }
  /// Takes up to `most_bytes` of contiguous pages from the smallest free block that is usable and
  /// has any: larger blocks are more likely to fit. Null if there is none.
  template <class Usable>
  Block* take_pages(std::size_t most_bytes, Usable&& usable) {
    auto const arena = arena_.access_to_cut();
    Block* chosen = nullptr;
    Span pages;
    arena->for_each_free([&](Block* block) {
      if (chosen == nullptr) {
        pages = range().pages_in(block->data, block->bytes);
        chosen = pages.bytes != 0 && usable(*arena, *block) ? block : nullptr;
      }
    });
    return chosen != nullptr
               ? arena->take_part(chosen, pages.begin, std::min(pages.bytes, most_bytes))
               : nullptr;
  }
  /// Moves the needed pages, or fewer if other threads take some first or the runtime has no memory
  /// to note a move.
  template <class Over, class Ready, class Usable>
  void move_pages(std::byte* to,
                  std::size_t needed,
                  Over& over,
                  Ready& ready,
                  Usable& usable,
                  Populated& moved) {
    auto const take = [&](auto& wanted) {
      return take_pages(needed - moved.bytes, [&](auto const& arena, Block const& block) {
        return !is_last(arena, block) && wanted(block);
      });
    };
    while (moved.bytes < needed) {
      Block* pages = take(over);
      pages = pages != nullptr ? pages : take(ready);
      pages = pages != nullptr ? pages : take(usable);
      if (pages == nullptr || !move_or_put_back(to + moved.bytes, pages, moved.uses)) {
        return;
      }
      moved.bytes += pages->bytes;
    }
  }
  bool move_or_put_back(std::byte* to, Block* pages, order::AccessLog& uses) {
    try {
      uses.note_all_of(pages->record.log);
      moved_.reserve(moved_.size() + 1);
      memory_.move(to, pages->data, pages->bytes);
    } catch (OutOfMemory const&) {
      arena_.put(pages);
      return false;
    } catch (...) {
      arena_.put(pages);
      throw;
    }
    moved_.push_back(pages);
    context_->runtime->memory_pooled(to, pages->bytes);
    return true;
  }
  /// Unmaps the old addresses of moved pages whose uses are `over(block)`.
  template <class Over>
  void leave_moved(Over&& over) {
    auto const left = std::remove_if(moved_.begin(), moved_.end(), [&](Block* pages) {
      if (!over(std::as_const(*pages))) {
        return false;
      }
      memory_.leave(pages->data, pages->bytes);
      arena_.access()->vacate(pages);
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
    Block* const pages = take_pages(range().in_pages(most_bytes),
                                    [&](auto const&, Block const& block) { return over(block); });
    if (pages == nullptr) {
      return 0;
    }
    auto const bytes = pages->bytes;
    memory_.unmap(pages->data, bytes);
    arena_.access()->vacate(pages);
    return bytes;
  }

  Block* grow_by_piece(std::size_t bytes, std::size_t limit_bytes) {
    for (std::size_t const amount : {std::max(bytes, growth_bytes_), bytes}) {
      if (auto* const memory = memory_.take_piece(amount, limit_bytes)) {
        auto const arena = arena_.access_to_cut();
        return arena->take_from(arena->add(memory, amount), bytes);
      }
    }
    return nullptr;
  }
  /// Releases pieces until free blocks that are `over(block)` have no more than `bytes`.
  template <class Over>
  void release_idle_pieces(std::size_t bytes, Over& over) {
    if (bytes != kAll) {
      arena_.join_what_is_over();
    }
    while (bytes != kAll && idle_bytes(over) > bytes) {
      auto const given = free_idle_piece(over);
      if (given == 0) {
        return;
      }
      capacity().give_back(given);
    }
  }
  template <class Over>
  [[nodiscard]] std::size_t idle_bytes(Over& over) const {
    std::size_t idle = 0;
    arena_.for_each_free([&](Block const* block) { idle += over(*block) ? block->bytes : 0; });
    return idle;
  }
  template <class Over>
  std::size_t free_idle_piece(Over& over) {
    return memory_.free_piece([&](std::byte const* begin, std::size_t bytes) {
      auto const arena = arena_.access_to_cut();
      Block* whole = nullptr;
      arena->for_each_free([&](Block* block) {
        if (block->data == begin && block->bytes == bytes && over(std::as_const(*block))) {
          whole = block;
        }
      });
      if (whole != nullptr) {
        arena->remove(whole);
      }
      return whole != nullptr;
    });
  }

  std::shared_ptr<detail::StreamContext> context_;
  std::size_t growth_bytes_;
  std::size_t keep_bytes_;
  CommonArena& arena_;

  mutable std::mutex mutex_;  ///< guards all members below
  RuntimeMemory memory_;
  std::vector<Block*> moved_;  ///< old addresses of moved pages, in use on the device
};

}  // namespace msstream::memory
