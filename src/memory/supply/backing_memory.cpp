// SPDX-License-Identifier: Apache-2.0
#include "memory/supply/backing_memory.hpp"

#include "memory/blocks/arena.hpp"
#include "memory/blocks/block_uses.hpp"

#include <msstream/base/error.hpp>

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace msstream::memory {
namespace {

/// Returns whether the free block ends where gathered pages or fresh memory will begin.
[[nodiscard]] bool is_last(Arena const& arena, Block const& block) noexcept {
  return block.arena.higher != nullptr && block.arena.higher == arena.unpopulated();
}

}  // namespace

BackingMemory::BackingMemory(std::shared_ptr<detail::StreamContext> context,
                             Space space,
                             std::shared_ptr<Capacity> capacity,
                             std::size_t growth_bytes,
                             std::shared_ptr<MemoryHistory> history,
                             std::size_t keep_bytes)
    : context_(std::move(context)),
      space_(space),
      growth_bytes_(growth_bytes),
      keep_bytes_(keep_bytes),
      arena_(context_->tracker),
      capacity_(std::move(capacity)),
      history_(std::move(history)),
      range_(*context_->runtime,
             space == Space::device ? capacity_->limit_bytes() : 0,
             capacity_->address_bytes()) {
  if (is_paged()) {
    arena_.access_to_cut()->reserve(range_.begin(), range_.bytes(), range_.page_bytes());
  }
}

BackingMemory::~BackingMemory() {
  auto const finish = [&](Block const& block) {
    for_each_use(block, [&](order::Position use) { context_->tracker->finish(use); });
    return true;
  };
  arena_.access()->for_each_free([&](Block* block) {
    finish(*block);
    block->record.log.clear();
  });
  arena_.join_all();
  leave_moved(finish);
  if (is_paged()) {
    arena_.access()->for_each_free([&](Block const* block) {
      unmap(block->data, block->bytes);
      capacity_->give_back(block->bytes);
    });
  }
  for (auto const& piece : pieces_) {
    free_memory_of(piece);
    capacity_->give_back(piece.bytes);
  }
}

Block* BackingMemory::grow(std::size_t bytes,
                           std::size_t limit_bytes,
                           BlockPredicate ready,
                           detail::FunctionRef<Block*()> find_again) {
  if (is_paged() && !capacity_->has_room(range_.page_bytes(), limit_bytes)) {
    return nullptr;  // without the lock, which may be held for long
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
    auto const preferred = std::clamp(range_.in_pages(growth_bytes_), needed, addresses.bytes);
    for (auto const amount : {preferred, needed}) {
      if (populated.bytes == 0 && take(amount, limit_bytes, [&] {
                                    runtime().map_pages(addresses.begin, amount);
                                    return addresses.begin;
                                  }) != nullptr) {
        populated.bytes = amount;
      }
    }
  });
}

Block* BackingMemory::gather(std::size_t bytes,
                             BlockPredicate over,
                             BlockPredicate ready,
                             BlockPredicate usable) {
  std::lock_guard const changing(mutex_);
  return gather_locked(bytes, over, ready, usable);
}

Block* BackingMemory::try_gather(std::size_t bytes,
                                 BlockPredicate over,
                                 BlockPredicate ready,
                                 BlockPredicate usable) {
  std::unique_lock const changing(mutex_, std::try_to_lock);
  return changing.owns_lock() ? gather_locked(bytes, over, ready, usable) : nullptr;
}

bool BackingMemory::has_pages_for(std::size_t bytes, BlockPredicate usable) const {
  if (!is_paged()) {
    return false;
  }
  auto const needed = range_.in_pages(bytes);
  auto const free = free_page_bytes([&](auto const&, Block const& block) { return usable(block); });
  return capacity_->has_room(needed - std::min(needed, free), capacity_->limit_bytes());
}

void BackingMemory::trim(std::size_t bytes,
                         BlockPredicate over,
                         detail::FunctionRef<void()> take_back) {
  std::lock_guard const changing(mutex_);
  leave_moved(over);
  take_back();
  arena_.join_what_is_over();  // free parts of a page must be joined to be released
  while (capacity_->reserved_bytes() > bytes) {
    auto const excess = capacity_->reserved_bytes() - bytes;
    auto const given = is_paged() ? unmap_idle(excess, over) : free_idle_piece(over);
    if (given == 0) {
      return;
    }
    leave_moved(over);  // moved pages are released only with their old addresses
    capacity_->give_back(given);
  }
}

Block* BackingMemory::gather_locked(std::size_t bytes,
                                    BlockPredicate over,
                                    BlockPredicate ready,
                                    BlockPredicate usable) {
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
  leave_moved(over);  // after extend(), because freed addresses join the absent range
  return block;
}

/// Takes the last free block, for fresh memory to extend, if it is shorter than `bytes` and
/// `ready(block)` is true.
BackingMemory::Last BackingMemory::take_last(std::size_t bytes, BlockPredicate ready) {
  auto const arena = arena_.access_to_cut();
  arena->choose_unpopulated(range_.in_pages(bytes));
  Block* const block =
      arena->take_last([&](Block const& free) { return free.bytes < bytes && ready(free); });
  auto const* const rest = arena->unpopulated();
  return {block, rest != nullptr ? Span{rest->data, rest->bytes} : Span{}};
}

/// Extends the last free block to `bytes`. `provide(addresses, needed, populated)` should put at
/// least `needed` bytes of memory behind the start of the addresses that follow that block. If it
/// provides less, the memory stays free, and the result is null.
template <class Provide>
Block* BackingMemory::extend(std::size_t bytes, BlockPredicate ready, Provide&& provide) {
  auto const [last, rest] = take_last(bytes, ready);
  std::size_t const needed = range_.in_pages(bytes - (last != nullptr ? last->bytes : 0));
  Populated populated;
  try {
    if (needed <= rest.bytes) {
      provide(rest, needed, populated);
    }
  } catch (...) {
    arena_.put(add_populated(last, rest.begin, populated, kAll));
    throw;
  }
  bool const is_enough = populated.bytes >= needed;
  auto* const block = add_populated(last, rest.begin, populated, is_enough ? bytes : kAll);
  if (!is_enough) {
    arena_.put(block);
    return nullptr;
  }
  return block;
}

/// Appends new memory to the last block, unless that is null, and returns the resulting block, cut
/// to `bytes`.
Block* BackingMemory::add_populated(Block* last,
                                    std::byte* at,
                                    Populated& populated,
                                    std::size_t bytes) {
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
    unmap(at, populated.bytes);
    capacity_->give_back(populated.bytes);
    arena_.put(last);
    throw;
  }
}

template <class Usable>
std::size_t BackingMemory::free_page_bytes(Usable&& usable) const {
  std::size_t total = 0;
  auto const arena = arena_.access();
  arena->for_each_free([&](Block* block) {
    auto const pages = range_.pages_in(block->data, block->bytes);
    total += pages.bytes != 0 && usable(*arena, *block) ? pages.bytes : 0;
  });
  return total;
}

/// Takes up to `most_bytes` of contiguous pages from the smallest free block for which
/// `usable(block)` is true and that contains a whole page: larger blocks are more likely to fit
/// other requests. Returns null if there is none.
template <class Usable>
Block* BackingMemory::take_pages(std::size_t most_bytes, Usable&& usable) {
  auto const arena = arena_.access_to_cut();
  Block* chosen = nullptr;
  Span pages;
  arena->for_each_free([&](Block* block) {
    if (chosen == nullptr) {
      pages = range_.pages_in(block->data, block->bytes);
      chosen = pages.bytes != 0 && usable(*arena, *block) ? block : nullptr;
    }
  });
  return chosen != nullptr
             ? arena->take_part(chosen, pages.begin, std::min(pages.bytes, most_bytes))
             : nullptr;
}

/// Moves `needed` bytes of free pages to the addresses from `to` on. Moves fewer if other threads
/// take pages first, or the host has no memory to note a move.
void BackingMemory::move_pages(std::byte* to,
                               std::size_t needed,
                               BlockPredicate over,
                               BlockPredicate ready,
                               BlockPredicate usable,
                               Populated& moved) {
  auto const take_wanted = [&](BlockPredicate wanted) {
    return take_pages(needed - moved.bytes, [&](auto const& arena, Block const& block) {
      return !is_last(arena, block) && wanted(block);
    });
  };
  while (moved.bytes < needed) {
    Block* pages = take_wanted(over);
    pages = pages != nullptr ? pages : take_wanted(ready);
    pages = pages != nullptr ? pages : take_wanted(usable);
    if (pages == nullptr || !move_or_put_back(to + moved.bytes, pages, moved.uses)) {
      return;
    }
    moved.bytes += pages->bytes;
  }
}

/// Maps the pages at new addresses, or returns them to the arena and returns false if that fails.
/// The old addresses stay mapped until leave_moved().
bool BackingMemory::move_or_put_back(std::byte* to, Block* pages, order::AccessLog& uses) {
  try {
    uses.note_all_of(pages->record.log);
    moved_.reserve(moved_.size() + 1);
    runtime().move_pages(to, pages->data, pages->bytes);
    note(MemorySnapshot::Event::Kind::move, to, pages->bytes);
  } catch (OutOfMemory const&) {
    arena_.put(pages);
    return false;
  } catch (...) {
    arena_.put(pages);
    throw;
  }
  moved_.push_back(pages);
  runtime().memory_pooled(to, pages->bytes);
  return true;
}

/// Unmaps the old addresses of moved pages for which `over(block)` is true: their uses are
/// complete.
void BackingMemory::leave_moved(BlockPredicate over) {
  auto const left = std::remove_if(moved_.begin(), moved_.end(), [&](Block* pages) {
    if (!over(*pages)) {
      return false;
    }
    runtime().leave_pages(pages->data, pages->bytes);
    arena_.access()->vacate(pages);
    return true;
  });
  moved_.erase(left, moved_.end());
}

/// Unmaps pages from addresses. The caller gives back the capacity when the pages have left all
/// their addresses.
void BackingMemory::unmap(std::byte* at, std::size_t bytes) noexcept {
  runtime().unmap_pages(at, bytes);
  note(MemorySnapshot::Event::Kind::release, at, bytes);
}

std::size_t BackingMemory::unmap_idle(std::size_t most_bytes, BlockPredicate over) {
  Block* const pages = take_pages(range_.in_pages(most_bytes),
                                  [&](auto const&, Block const& block) { return over(block); });
  if (pages == nullptr) {
    return 0;
  }
  auto const bytes = pages->bytes;
  unmap(pages->data, bytes);
  arena_.access()->vacate(pages);
  return bytes;
}

Block* BackingMemory::grow_by_piece(std::size_t bytes, std::size_t limit_bytes) {
  for (std::size_t const amount : {std::max(bytes, growth_bytes_), bytes}) {
    pieces_.reserve(pieces_.size() + 1);
    auto* const memory = take(amount, limit_bytes, [&] {
      void* const begin = space_ == Space::device ? runtime().allocate_device(amount)
                                                  : runtime().allocate_pinned(amount);
      pieces_.push_back({static_cast<std::byte*>(begin), amount});
      return pieces_.back().begin;
    });
    if (memory != nullptr) {
      auto const arena = arena_.access_to_cut();
      return arena->take_from(arena->add(memory, amount), bytes);
    }
  }
  return nullptr;
}

/// Releases pieces of memory until the free blocks for which `over(block)` is true have no more
/// than `bytes`.
void BackingMemory::release_idle_pieces(std::size_t bytes, BlockPredicate over) {
  auto const idle_bytes = [&] {
    std::size_t idle = 0;
    arena_.access()->for_each_free(
        [&](Block const* block) { idle += over(*block) ? block->bytes : 0; });
    return idle;
  };
  if (bytes != kAll) {
    arena_.join_what_is_over();
  }
  while (bytes != kAll && idle_bytes() > bytes) {
    auto const given = free_idle_piece(over);
    if (given == 0) {
      return;
    }
    capacity_->give_back(given);
  }
}

/// Gives the first piece that is one free block for which `over(block)` is true back to the
/// runtime, but not its capacity. Returns the piece's bytes, or 0 if there is no such piece.
std::size_t BackingMemory::free_idle_piece(BlockPredicate over) {
  auto const place = std::find_if(pieces_.begin(), pieces_.end(), [&](Piece const& piece) {
    auto const arena = arena_.access_to_cut();
    Block* whole = nullptr;
    arena->for_each_free([&](Block* block) {
      if (block->data == piece.begin && block->bytes == piece.bytes && over(*block)) {
        whole = block;
      }
    });
    if (whole != nullptr) {
      arena->remove(whole);
    }
    return whole != nullptr;
  });
  if (place == pieces_.end()) {
    return 0;
  }
  Piece const piece = *place;
  pieces_.erase(place);
  free_memory_of(piece);
  note(MemorySnapshot::Event::Kind::release, piece.begin, piece.bytes);
  return piece.bytes;
}

void BackingMemory::free_memory_of(Piece const& piece) noexcept {
  if (space_ == Space::device) {
    runtime().free_device(piece.begin, piece.bytes);
  } else {
    runtime().free_pinned(piece.begin, piece.bytes);
  }
}

/// Counts `bytes` as reserved and calls `obtain()`, which returns the memory's address. Returns
/// null if the limits or the runtime leave no memory.
template <class Obtain>
std::byte* BackingMemory::take(std::size_t bytes, std::size_t limit_bytes, Obtain&& obtain) {
  if (!capacity_->take(bytes, limit_bytes)) {
    return nullptr;
  }
  std::byte* begin = nullptr;
  try {
    begin = obtain();
  } catch (OutOfMemory const&) {
    capacity_->give_back(bytes);
    return nullptr;
  } catch (...) {
    capacity_->give_back(bytes);
    throw;
  }
  growths_.fetch_add(1, std::memory_order_relaxed);
  note(MemorySnapshot::Event::Kind::grow, begin, bytes);
  runtime().memory_pooled(begin, bytes);
  return begin;
}

void BackingMemory::note(MemorySnapshot::Event::Kind kind,
                         std::byte const* at,
                         std::size_t bytes) noexcept {
  if (history_ != nullptr) {
    history_->note({0, kind, reinterpret_cast<std::uintptr_t>(at), bytes, 0, nullptr});
  }
}

}  // namespace msstream::memory
