// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"
#include "memory/blocks/block.hpp"
#include "memory/blocks/block_list.hpp"
#include "memory/blocks/occupied.hpp"
#include "memory/blocks/size_bins.hpp"

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

namespace msstream::memory {

/// Ranges of addresses, cut into blocks. A block is used, free, or absent (without memory behind
/// its addresses):
///
///     | used | free     | used | used | free | absent                            |
///
/// take() cuts a block from the free block that fits best. put() joins a returned block with free
/// neighbours where the caller permits it. The joined block keeps the newest use by each stream of
/// all its parts: its next owner follows all of these uses, and joining itself waits for nothing.
/// Sizes are multiples of SizeBin::kGrainBytes. Not synchronised.
class Arena {
 public:
  Arena() = default;
  Arena(Arena const&) = delete;
  Arena& operator=(Arena const&) = delete;
  ~Arena() {
    while (made_ != nullptr) {
      delete std::exchange(made_, made_->arena.made_before);
    }
  }

  /// Adds a spare block, made without the arena's lock. Each cut of a block consumes one.
  void add_spare(std::unique_ptr<Block> spare) noexcept {
    spare->arena.made_before = std::exchange(made_, spare.get());
    recycle(spare.release());
  }
  /// Returns whether fewer than two spare blocks are left. One call cuts at most twice.
  [[nodiscard]] bool needs_spares() const noexcept { return !spares_.has_several(); }

  /// Adds addresses without memory; populate() fills them in order. A block of one to two pages is
  /// cut so that it contains a whole page, as long as that leaves little memory free in front of
  /// the block: a whole free page can be moved later, parts of two pages cannot. If `page_bytes` is
  /// 0, there are no pages.
  void reserve(std::byte* begin, std::size_t bytes, std::size_t page_bytes = 0) noexcept {
    page_bytes_ = page_bytes;
    first_page_ = begin;
    unpopulated_ = add_range(begin, bytes, Holding::absent);
  }
  /// Returns the addresses that populate() fills next; null if all addresses have memory.
  [[nodiscard]] Block const* unpopulated() const noexcept { return unpopulated_; }
  /// Chooses the absent range that populate() fills next: the smallest of at least `bytes`,
  /// otherwise the longest.
  void choose_unpopulated(std::size_t bytes) noexcept {
    for (Block* block = absent_.newest(); block != nullptr; block = absent_.older_than(*block)) {
      bool const is_better = unpopulated_ == nullptr ||
                             (unpopulated_->bytes < bytes
                                  ? block->bytes > unpopulated_->bytes
                                  : block->bytes >= bytes && block->bytes < unpopulated_->bytes);
      unpopulated_ = is_better ? block : unpopulated_;
    }
  }
  /// Adds a range of memory that is not joined with other ranges, even if their addresses are
  /// adjacent.
  Block* add(std::byte* begin, std::size_t bytes) noexcept {
    return add_range(begin, bytes, Holding::free);
  }
  /// Adds a block of another arena to this arena as a free block. The block stays in use in the
  /// other arena.
  Block* borrow(Block const& lent) {
    Block* const block = copy_of(&lent);
    block->data = lent.data;
    block->bytes = lent.bytes;
    return settle(block, Holding::free, always);
  }
  /// Takes back the block `lent`, which `borrower` has cut: replaces it by the borrower's blocks,
  /// the lowest of which is `first`.
  void take_back(Block* lent, Block* first, Arena& borrower) noexcept {
    auto const& place = lent->arena;
    Block* last = nullptr;
    for (Block* block = first; block != nullptr; block = block->arena.higher) {
      borrower.leave_bin(block);
      enter_bin(block);
      if (last != nullptr && !spares_.empty()) {
        borrower.recycle(take_spare());  // replaces the block, or the borrower makes one each time
      }
      last = block;
    }
    link(place.lower, first);
    link(last, place.higher);
    borrower.recycle(lent);
  }
  /// Removes a range of memory that add() has added. The range must be one free block again.
  void remove(Block* block) noexcept {
    leave_bin(block);
    recycle(block);
  }

  /// Takes the free block that fits best among those for which `ready(block)` is true, cut to
  /// `bytes`. Looks at a bounded number of blocks. Returns null if none of them fits.
  template <class Ready>
  [[nodiscard]] Block* take(std::size_t bytes, Ready&& ready) {
    Block* const found = best_fit(bytes, ready);
    return found != nullptr ? take_from(found, bytes) : nullptr;
  }
  /// Returns the free block of at least `bytes` with the least `cost(block)`; among equal costs,
  /// the best fit. Looks at a bounded number of blocks. Returns null if none of them fits.
  template <class Cost>
  [[nodiscard]] Block* cheapest(std::size_t bytes, Cost&& cost) const {
    Block* best = nullptr;
    auto least = std::numeric_limits<std::uint64_t>::max();
    auto const look_at = [&](Block* block) {
      auto const costs = cost(std::as_const(*block));
      if (costs < least || (costs == least && best != nullptr && block->bytes < best->bytes)) {
        best = block;
        least = costs;
      }
    };
    visit_fitting(bytes, look_at, [&] { return least == 0; });
    return best;
  }
  /// Takes the free block `found` and cuts it to `bytes`. May leave a gap at its start so that the
  /// block contains a whole page.
  [[nodiscard]] Block* take_from(Block* found, std::size_t bytes) {
    if (auto const before = bytes_before_page(*found, bytes); before != 0) {
      gap_bytes_ += before;
      return take_part(found, found->data + before, bytes);
    }
    Block* const rest = found->bytes > bytes ? copy_of(found) : nullptr;
    leave_bin(found);
    if (rest != nullptr) {
      cut(found, bytes, rest);
      enter_bin(rest);
    }
    found->arena.holding = Holding::used;
    return found;
  }
  /// Frees a block and joins it with free neighbours where `may_join(lower, higher)` permits.
  template <class MayJoin>
  void put(Block* block, MayJoin&& may_join) noexcept {
    settle(block, Holding::free, may_join);
  }
  /// Joins all pairs of free neighbours for which `may_join(lower, higher)` is true.
  template <class MayJoin>
  void join_neighbours(MayJoin&& may_join) noexcept {
    for (std::size_t bin = occupied_.next(0); bin != OccupiedBins::kNone;
         bin = occupied_.next(bin + 1)) {
      while (Block* const block = one_that_grows(bin, may_join)) {
        auto const bytes = block->bytes;
        leave_bin(block);
        if (settle(block, Holding::free, may_join)->bytes == bytes) {
          return;  // the host has no memory to note the uses of both blocks
        }
      }
    }
  }

  /// Takes the whole free block that ends where the addresses without memory begin, if
  /// `ready(block)` is true, so that fresh memory can extend it. Returns null if there is no such
  /// block.
  template <class Ready>
  [[nodiscard]] Block* take_last(Ready&& ready) {
    Block* const last = unpopulated_ != nullptr ? unpopulated_->arena.lower : nullptr;
    if (last == nullptr || last->arena.holding != Holding::free || !ready(std::as_const(*last))) {
      return nullptr;
    }
    leave_bin(last);
    last->arena.holding = Holding::used;
    return last;
  }
  /// Marks the first `populated` bytes of unpopulated() as having memory, whose last uses are
  /// `uses`. Appends them to `last`, a block from take_last() that has the same uses noted, unless
  /// `last` is null. Returns the resulting block, cut to `bytes`.
  Block* populate(Block* last,
                  std::size_t populated,
                  std::size_t bytes,
                  order::AccessLog&& uses = {}) noexcept {
    Block* block = std::exchange(unpopulated_, nullptr);
    leave_bin(block);
    if (block->bytes > populated) {
      unpopulated_ = take_spare();
      cut(block, populated, unpopulated_);
      enter_bin(unpopulated_);
    }
    populated_bytes_ += populated;
    block->record.log = std::move(uses);
    if (last != nullptr) {
      join(last, block);  // cannot fail: the log of `last` has these uses
      block = last;
    }
    block->arena.holding = Holding::used;
    if (auto const before = bytes_before_page(*block, bytes);
        before != 0 && spares_.has_several()) {
      gap_bytes_ += before;
      block = cut_off_lower(block, before);
    }
    if (block->bytes > bytes) {
      try {
        Block* const rest = copy_of(block);
        cut(block, bytes, rest);
        settle(rest, Holding::free, always);
      } catch (std::bad_alloc const&) {  // NOLINT(bugprone-empty-catch): the block stays uncut
      }
    }
    return block;
  }
  /// Takes `bytes` out of a free block, from the address `begin` on.
  [[nodiscard]] Block* take_part(Block* free, std::byte* begin, std::size_t bytes) {
    auto const before = static_cast<std::size_t>(begin - free->data);
    Block* const part = before > 0 ? copy_of(free) : free;
    Block* const rest = free->bytes > before + bytes ? copy_of(free) : nullptr;
    leave_bin(free);
    if (before > 0) {
      cut(free, before, part);
      enter_bin(free);
    }
    if (rest != nullptr) {
      cut(part, bytes, rest);
      enter_bin(rest);
    }
    part->arena.holding = Holding::used;
    return part;
  }
  /// Makes a used block absent, after the memory behind its addresses was removed.
  void vacate(Block* used) noexcept {
    populated_bytes_ -= used->bytes;
    used->record.log.clear();
    static_cast<void>(settle(used, Holding::absent, always));
  }

  /// Returns the number of free bytes. If called without the arena's lock, the result may be
  /// slightly outdated.
  [[nodiscard]] std::size_t free_bytes() const noexcept {
    return free_bytes_.load(std::memory_order_relaxed);
  }
  /// Returns the size of the largest free block.
  [[nodiscard]] std::size_t largest_free_bytes() const noexcept {
    auto const bin = occupied_.last();
    if (bin == OccupiedBins::kNone) {
      return 0;
    }
    std::size_t largest = 0;
    for (Block const* block = bins_[bin].newest(); block != nullptr;
         block = bins_[bin].older_than(*block)) {
      largest = std::max(largest, block->bytes);
    }
    return largest;
  }
  /// Calls `visit(block)` for each free block, the smallest first. `visit` may take the block.
  template <class Visit>
  void for_each_free(Visit&& visit) const {
    for (std::size_t bin = occupied_.next(0); bin != OccupiedBins::kNone;
         bin = occupied_.next(bin + 1)) {
      for (Block* block = bins_[bin].newest(); block != nullptr;) {
        Block* const older = bins_[bin].older_than(*block);
        visit(block);
        block = older;
      }
    }
  }

 private:
  using OccupiedBins = Occupied<SizeBin::kCount>;
  static constexpr int kLooks = 128;
  static constexpr std::size_t kPartForGaps = 32;

  Block* add_range(std::byte* begin, std::size_t bytes, Holding holding) noexcept {
    Block* const block = take_spare();
    block->data = begin;
    block->bytes = bytes;
    return settle(block, holding, always);
  }

  template <class Ready>
  Block* best_fit(std::size_t bytes, Ready& ready) const {
    Block* best = nullptr;
    auto const look_at = [&](Block* block) {
      if ((best == nullptr || block->bytes < best->bytes) && ready(std::as_const(*block))) {
        best = block;
      }
    };
    visit_fitting(bytes, look_at, [&] { return best != nullptr; });
    return best;
  }
  /// Calls `visit(block)` for a bounded number of free blocks of at least `bytes`, bin by bin,
  /// until `is_enough()` is true after a bin. The first bin has a bound of its own, because its
  /// blocks may be too small.
  template <class Visit, class IsEnough>
  void visit_fitting(std::size_t bytes, Visit&& visit, IsEnough&& is_enough) const {
    std::size_t const first = SizeBin::of(bytes);
    int looks = 0;
    for (std::size_t bin = occupied_.next(first);
         bin != OccupiedBins::kNone && looks < kLooks && !is_enough();
         bin = occupied_.next(bin + 1)) {
      for (Block* block = bins_[bin].newest(); block != nullptr && looks < kLooks; ++looks) {
        if (block->bytes >= bytes) {
          visit(block);
        }
        block = bins_[bin].older_than(*block);
      }
      looks = bin == first ? 0 : looks;
    }
  }

  /// Returns how many bytes to leave free at the start of a block so that the next `bytes` contain
  /// a whole page. Returns 0 if the first `bytes` contain one, if none can, or if too much would be
  /// left free.
  [[nodiscard]] std::size_t bytes_before_page(Block const& block,
                                              std::size_t bytes) const noexcept {
    if (bytes <= page_bytes_ || bytes >= 2 * page_bytes_) {
      return 0;
    }
    auto const offset = static_cast<std::size_t>(block.data - first_page_) % page_bytes_;
    auto const end_of_page = 2 * page_bytes_;
    if (offset == 0 || offset + bytes >= end_of_page) {
      return 0;
    }
    auto const before = end_of_page - bytes - offset;
    bool const is_little =
        gap_bytes_ + before <= std::max(page_bytes_, populated_bytes_ / kPartForGaps);
    return is_little && block.bytes >= before + bytes ? before : 0;
  }
  /// Frees the first `before` bytes of the block and returns the rest; requires a spare block. If
  /// the host has no memory to note the uses of both parts, returns the whole block.
  Block* cut_off_lower(Block* block, std::size_t before) noexcept {
    try {
      Block* const higher = copy_of(block);
      cut(block, before, higher);
      settle(block, Holding::free, never);
      return higher;
    } catch (std::bad_alloc const&) {
      return block;
    }
  }

  /// A function object for `may_join` that always returns `Answer`. It is not a lambda, because the
  /// type of a lambda differs from file to file.
  template <bool Answer>
  struct Says {
    constexpr bool operator()(Block const&, Block const&) const { return Answer; }
  };
  static constexpr Says<false> never{};
  static constexpr Says<true> always{};

  /// Sets the block's state and joins it with neighbours of that state where `may_join` permits.
  template <class MayJoin>
  Block* settle(Block* block, Holding holding, MayJoin& may_join) noexcept {
    block->arena.holding = holding;
    if (auto* const higher = block->arena.higher; can_join(block, higher, may_join)) {
      leave_bin(higher);
      if (!join(block, higher)) {
        enter_bin(higher);
      }
    }
    if (auto* const lower = block->arena.lower; can_join(lower, block, may_join)) {
      leave_bin(lower);
      auto const lower_bytes = lower->bytes;
      if (join(lower, block)) {
        gap_bytes_ -= lower_bytes < page_bytes_ ? std::min(gap_bytes_, lower_bytes) : 0;
        block = lower;
      } else {
        enter_bin(lower);
      }
    }
    enter_bin(block);
    return block;
  }
  template <class MayJoin>
  [[nodiscard]] static bool can_join(Block const* lower,
                                     Block const* higher,
                                     MayJoin& may_join) noexcept {
    return lower != nullptr && higher != nullptr && lower->arena.holding == higher->arena.holding &&
           lower->arena.holding != Holding::used && may_join(*lower, *higher);
  }
  /// Returns a free block of the bin that may join its higher neighbour; null if there is none.
  template <class MayJoin>
  [[nodiscard]] Block* one_that_grows(std::size_t bin, MayJoin& may_join) const noexcept {
    Block* block = bins_[bin].newest();
    while (block != nullptr && !can_join(block, block->arena.higher, may_join)) {
      block = bins_[bin].older_than(*block);
    }
    return block;
  }
  /// Appends the block `higher` to `lower`. Returns false, and joins nothing, if the host has no
  /// memory to note the uses of both.
  bool join(Block* lower, Block* higher) noexcept {
    try {
      lower->record.log.note_all_of(higher->record.log);
    } catch (std::bad_alloc const&) {
      return false;
    }
    if (unpopulated_ == higher) {
      unpopulated_ = lower;
    }
    lower->bytes += higher->bytes;
    link(lower, higher->arena.higher);
    recycle(higher);
    return true;
  }
  static void link(Block* lower, Block* higher) noexcept {
    if (lower != nullptr) {
      lower->arena.higher = higher;
    }
    if (higher != nullptr) {
      higher->arena.lower = lower;
    }
  }
  /// Cuts the block to `bytes`; `rest` becomes the remainder.
  static void cut(Block* block, std::size_t bytes, Block* rest) noexcept {
    rest->data = block->data + bytes;
    rest->bytes = block->bytes - bytes;
    rest->arena.holding = block->arena.holding;
    rest->share.store(block->share.load(std::memory_order_relaxed), std::memory_order_relaxed);
    link(rest, block->arena.higher);
    link(block, rest);
    block->bytes = bytes;
  }

  void enter_bin(Block* block) noexcept {
    if (block->arena.holding == Holding::used) {
      return;
    }
    list_for(*block).add(*block);
    if (block->arena.holding == Holding::free) {
      occupied_.insert(SizeBin::of(block->bytes));
      free_bytes_.store(free_bytes() + block->bytes, std::memory_order_relaxed);
    }
  }
  void leave_bin(Block* block) noexcept {
    if (block->arena.holding == Holding::used) {
      return;
    }
    auto& list = list_for(*block);
    list.remove(*block);
    if (block->arena.holding == Holding::free) {
      if (list.empty()) {
        occupied_.erase(SizeBin::of(block->bytes));
      }
      free_bytes_.store(free_bytes() - block->bytes, std::memory_order_relaxed);
    }
  }
  BlockList& list_for(Block const& block) noexcept {
    return block.arena.holding == Holding::absent ? absent_ : bins_[SizeBin::of(block.bytes)];
  }

  /// Takes a spare block and copies the recorded uses of `block` to it.
  Block* copy_of(Block const* block) {
    spares_.newest()->record.log = block->record.log;
    return take_spare();
  }
  Block* take_spare() noexcept {
    Block* const spare = spares_.newest();
    spares_.remove(*spare);
    return spare;
  }
  void recycle(Block* block) noexcept {
    block->record.log.clear();
    block->share.store(nullptr, std::memory_order_relaxed);
    block->arena.lower = block->arena.higher = nullptr;
    spares_.add(*block);
  }

  std::array<BlockList, SizeBin::kCount> bins_;
  OccupiedBins occupied_;
  std::atomic<std::size_t> free_bytes_{0};
  BlockList absent_;
  BlockList spares_;
  std::size_t page_bytes_ = 0;
  std::size_t populated_bytes_ = 0;
  std::size_t gap_bytes_ = 0;  ///< roughly the free bytes before blocks, in gaps below a page
  std::byte* first_page_ = nullptr;
  Block* unpopulated_ = nullptr;
  Block* made_ = nullptr;  ///< the newest block made; made_before links the others
};

/// Returns the arena's lock with enough spare blocks, which are made without the lock.
[[nodiscard]] inline std::unique_lock<detail::SpinLock> with_spares(
    std::unique_lock<detail::SpinLock> lock, Arena& arena) {
  while (arena.needs_spares()) {
    lock.unlock();
    auto spare = std::make_unique<Block>();
    lock.lock();
    arena.add_spare(std::move(spare));
  }
  return lock;
}

}  // namespace msstream::memory
