// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/spin_lock.hpp>
#include <msstream/memory/block.hpp>
#include <msstream/memory/block_list.hpp>
#include <msstream/memory/occupied.hpp>
#include <msstream/memory/size_bins.hpp>
#include <msstream/runtime/compiled_once.hpp>

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

/// Ranges of addresses, cut into blocks that are used, free, or absent: without memory behind them.
///
///     | used | free     | used | used | free | absent                            |
///
/// take() cuts from the free block that fits best. put() joins what comes back with those free
/// neighbours that the caller lets it join, and the joined block remembers the newest use by each
/// stream of all its parts: whoever gets it follows them all, and joining makes nobody wait. Sizes
/// are multiples of SizeBin::kGrainBytes. Not synchronised.
template <Runtime R>
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

  /// Cutting a block takes a spare one, made before, outside of whatever lock guards the arena: to
  /// be called while needs_spares().
  void add_spare(std::unique_ptr<Block<R>> spare) noexcept {
    spare->arena.made_before = std::exchange(made_, spare.get());
    recycle(spare.release());
  }
  /// A call cuts at most twice.
  [[nodiscard]] bool needs_spares() const noexcept { return !spares_.has_several(); }

  /// Addresses without memory, which populate() takes in order. Blocks that are larger than a page
  /// are cut there so that one lies within them, as long as what is left free before them is little
  /// of all: a page that is free can be moved, and parts of two pages cannot. 0: there are none.
  void reserve(std::byte* begin, std::size_t bytes, std::size_t page_bytes = 0) noexcept {
    page_bytes_ = page_bytes;
    first_page_ = begin;
    unpopulated_ = add_range(begin, bytes, Holding::absent);
  }
  /// What populate() takes from; null when there is memory behind all addresses.
  [[nodiscard]] Block<R> const* unpopulated() const noexcept { return unpopulated_; }
  /// Makes that the smallest of the absent ranges that have `bytes`, or else the longest.
  void choose_unpopulated(std::size_t bytes) noexcept {
    for (Block<R>* block = absent_.newest(); block != nullptr; block = absent_.older_than(*block)) {
      bool const is_better = unpopulated_ == nullptr ||
                             (unpopulated_->bytes < bytes
                                  ? block->bytes > unpopulated_->bytes
                                  : block->bytes >= bytes && block->bytes < unpopulated_->bytes);
      unpopulated_ = is_better ? block : unpopulated_;
    }
  }
  /// Memory of its own, which is not joined with other even where their addresses meet.
  Block<R>* add(std::byte* begin, std::size_t bytes) noexcept {
    return add_range(begin, bytes, Holding::free);
  }
  /// The same of a block that another arena lends, which stays in use there.
  Block<R>* borrow(Block<R> const& lent) {
    Block<R>* const block = copy_of(&lent);
    block->data = lent.data;
    block->bytes = lent.bytes;
    return settle(block, Holding::free, always);
  }
  /// What `borrower` has made of a block that this arena has lent, of which `first` is the lowest,
  /// takes the place of that block.
  void take_back(Block<R>* lent, Block<R>* first, Arena& borrower) noexcept {
    auto const& place = lent->arena;
    Block<R>* last = nullptr;
    for (Block<R>* block = first; block != nullptr; block = block->arena.higher) {
      borrower.leave_bin(block);
      enter_bin(block);
      if (last != nullptr && !spares_.empty()) {
        borrower.recycle(take_spare());  // for this one, or it would make more each time
      }
      last = block;
    }
    link(place.lower, first);
    link(last, place.higher);
    borrower.recycle(lent);
  }
  /// Forgets added memory that is one free block again.
  void remove(Block<R>* block) noexcept {
    leave_bin(block);
    recycle(block);
  }

  /// The free block that fits best of those that are `ready(block)`, cut to `bytes`; looks at a
  /// bounded number. Null when there is none.
  template <class Ready>
  [[nodiscard]] Block<R>* take(std::size_t bytes, Ready&& ready) {
    Block<R>* const found = best_fit(bytes, ready);
    return found != nullptr ? take_from(found, bytes) : nullptr;
  }
  /// The free block that costs least, `cost(block)`, of those that fit; the best fit of several.
  /// Looks at a bounded number. Null when there is none.
  template <class Cost>
  [[nodiscard]] Block<R>* cheapest(std::size_t bytes, Cost&& cost) const {
    Block<R>* best = nullptr;
    auto least = std::numeric_limits<std::uint64_t>::max();
    auto const look_at = [&](Block<R>* block) {
      auto const costs = cost(std::as_const(*block));
      if (costs < least || (costs == least && best != nullptr && block->bytes < best->bytes)) {
        best = block;
        least = costs;
      }
    };
    visit_fitting(bytes, look_at, [&] { return least == 0; });
    return best;
  }
  /// The free block itself, cut to `bytes`, or a part of it.
  [[nodiscard]] Block<R>* take_from(Block<R>* found, std::size_t bytes) {
    if (auto const before = bytes_before_page(*found, bytes); before != 0) {
      gap_bytes_ += before;
      return take_part(found, found->data + before, bytes);
    }
    Block<R>* const rest = found->bytes > bytes ? copy_of(found) : nullptr;
    leave_bin(found);
    if (rest != nullptr) {
      cut(found, bytes, rest);
      enter_bin(rest);
    }
    found->arena.holding = Holding::used;
    return found;
  }
  /// `may_join(lower, higher)` says whether two free neighbours may become one.
  template <class MayJoin>
  void put(Block<R>* block, MayJoin&& may_join) noexcept {
    settle(block, Holding::free, may_join);
  }
  /// Joins all free neighbours that may be.
  template <class MayJoin>
  void join_neighbours(MayJoin&& may_join) noexcept {
    for (std::size_t bin = occupied_.next(0); bin != OccupiedBins::kNone;
         bin = occupied_.next(bin + 1)) {
      while (Block<R>* const block = one_that_grows(bin, may_join)) {
        auto const bytes = block->bytes;
        leave_bin(block);
        if (settle(block, Holding::free, may_join)->bytes == bytes) {
          return;  // the host has no memory to note the uses of both
        }
      }
    }
  }

  /// The free block that ends where unpopulated() begins, whole, if it is `ready`: more memory
  /// makes it longer. Null when there is none.
  template <class Ready>
  [[nodiscard]] Block<R>* take_last(Ready&& ready) {
    Block<R>* const last = unpopulated_ != nullptr ? unpopulated_->arena.lower : nullptr;
    if (last == nullptr || last->arena.holding != Holding::free || !ready(std::as_const(*last))) {
      return nullptr;
    }
    leave_bin(last);
    last->arena.holding = Holding::used;
    return last;
  }
  /// There is memory now, with these last uses, behind the first `populated` bytes of
  /// unpopulated(). Adds it to the block that take_last() gave, which has them noted, or to none,
  /// and returns that cut to `bytes`.
  Block<R>* populate(Block<R>* last,
                     std::size_t populated,
                     std::size_t bytes,
                     order::AccessLog&& uses = {}) noexcept {
    Block<R>* block = std::exchange(unpopulated_, nullptr);
    leave_bin(block);
    if (block->bytes > populated) {
      unpopulated_ = take_spare();
      cut(block, populated, unpopulated_);
      enter_bin(unpopulated_);
    }
    populated_bytes_ += populated;
    block->record.log = std::move(uses);
    if (last != nullptr) {
      join(last, block);  // notes nothing new
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
        Block<R>* const rest = copy_of(block);
        cut(block, bytes, rest);
        settle(rest, Holding::free, always);
      } catch (std::bad_alloc const&) {  // NOLINT(bugprone-empty-catch): then it is larger
      }
    }
    return block;
  }
  /// A part of a free block, in use from here on.
  [[nodiscard]] Block<R>* take_part(Block<R>* free, std::byte* begin, std::size_t bytes) {
    auto const before = static_cast<std::size_t>(begin - free->data);
    Block<R>* const part = before > 0 ? copy_of(free) : free;
    Block<R>* const rest = free->bytes > before + bytes ? copy_of(free) : nullptr;
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
  /// The memory has gone from behind a used block.
  void vacate(Block<R>* used) noexcept {
    populated_bytes_ -= used->bytes;
    used->record.log.clear();
    static_cast<void>(settle(used, Holding::absent, always));
  }

  /// May be asked without the lock, and then tells what was a moment ago.
  [[nodiscard]] std::size_t free_bytes() const noexcept {
    return free_bytes_.load(std::memory_order_relaxed);
  }
  /// Of the largest free block.
  [[nodiscard]] std::size_t largest_free_bytes() const noexcept {
    auto const bin = occupied_.last();
    if (bin == OccupiedBins::kNone) {
      return 0;
    }
    std::size_t largest = 0;
    for (Block<R> const* block = bins_[bin].newest(); block != nullptr;
         block = bins_[bin].older_than(*block)) {
      largest = std::max(largest, block->bytes);
    }
    return largest;
  }
  /// `visit(block)`, smallest first; it may take the block.
  template <class Visit>
  void for_each_free(Visit&& visit) const {
    for (std::size_t bin = occupied_.next(0); bin != OccupiedBins::kNone;
         bin = occupied_.next(bin + 1)) {
      for (Block<R>* block = bins_[bin].newest(); block != nullptr;) {
        Block<R>* const older = bins_[bin].older_than(*block);
        visit(block);
        block = older;
      }
    }
  }

 private:
  using OccupiedBins = Occupied<SizeBin::kCount>;
  static constexpr int kLooks = 128;
  static constexpr std::size_t kPartForGaps = 32;

  Block<R>* add_range(std::byte* begin, std::size_t bytes, Holding holding) noexcept {
    Block<R>* const block = take_spare();
    block->data = begin;
    block->bytes = bytes;
    return settle(block, holding, always);
  }

  template <class Ready>
  Block<R>* best_fit(std::size_t bytes, Ready& ready) const {
    Block<R>* best = nullptr;
    auto const look_at = [&](Block<R>* block) {
      if ((best == nullptr || block->bytes < best->bytes) && ready(std::as_const(*block))) {
        best = block;
      }
    };
    visit_fitting(bytes, look_at, [&] { return best != nullptr; });
    return best;
  }
  /// `visit(block)` for a bounded number of the free blocks that have `bytes`, bin by bin, until
  /// `is_enough()` after one. However many blocks of the first bin are too small, the others, which
  /// are not, are looked at.
  template <class Visit, class IsEnough>
  void visit_fitting(std::size_t bytes, Visit&& visit, IsEnough&& is_enough) const {
    std::size_t const first = SizeBin::of(bytes);
    int looks = 0;
    for (std::size_t bin = occupied_.next(first);
         bin != OccupiedBins::kNone && looks < kLooks && !is_enough();
         bin = occupied_.next(bin + 1)) {
      for (Block<R>* block = bins_[bin].newest(); block != nullptr && looks < kLooks; ++looks) {
        if (block->bytes >= bytes) {
          visit(block);
        }
        block = bins_[bin].older_than(*block);
      }
      looks = bin == first ? 0 : looks;
    }
  }

  /// How many bytes to leave free at the beginning of a block, so that the `bytes` behind them
  /// contain a whole page. 0 where the first `bytes` of the block contain one, or none can.
  [[nodiscard]] std::size_t bytes_before_page(Block<R> const& block,
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
  /// The block without its first `before` bytes, which become free; there is a spare one. Where the
  /// host has no memory to note their uses, the whole block.
  Block<R>* cut_off_lower(Block<R>* block, std::size_t before) noexcept {
    try {
      Block<R>* const higher = copy_of(block);
      cut(block, before, higher);
      settle(block, Holding::free, never);
      return higher;
    } catch (std::bad_alloc const&) {
      return block;
    }
  }

  /// Whether two blocks may be joined. Not a lambda, whose type differs from file to file.
  template <bool Answer>
  struct Says {
    constexpr bool operator()(Block<R> const&, Block<R> const&) const { return Answer; }
  };
  static constexpr Says<false> never{};
  static constexpr Says<true> always{};

  /// Joins the block with the neighbours that are like it.
  template <class MayJoin>
  Block<R>* settle(Block<R>* block, Holding holding, MayJoin& may_join) noexcept {
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
  [[nodiscard]] static bool can_join(Block<R> const* lower,
                                     Block<R> const* higher,
                                     MayJoin& may_join) noexcept {
    return lower != nullptr && higher != nullptr && lower->arena.holding == higher->arena.holding &&
           lower->arena.holding != Holding::used && may_join(*lower, *higher);
  }
  /// A free block in the bin that may be joined with the next; null: there is none.
  template <class MayJoin>
  [[nodiscard]] Block<R>* one_that_grows(std::size_t bin, MayJoin& may_join) const noexcept {
    Block<R>* block = bins_[bin].newest();
    while (block != nullptr && !can_join(block, block->arena.higher, may_join)) {
      block = bins_[bin].older_than(*block);
    }
    return block;
  }
  /// False where the host has no memory to note the uses of both.
  bool join(Block<R>* lower, Block<R>* higher) noexcept {
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
  static void link(Block<R>* lower, Block<R>* higher) noexcept {
    if (lower != nullptr) {
      lower->arena.higher = higher;
    }
    if (higher != nullptr) {
      higher->arena.lower = lower;
    }
  }
  /// `rest` becomes what is behind the first `bytes` of the block.
  static void cut(Block<R>* block, std::size_t bytes, Block<R>* rest) noexcept {
    rest->data = block->data + bytes;
    rest->bytes = block->bytes - bytes;
    rest->arena.holding = block->arena.holding;
    rest->lent_to.store(block->lent_to.load(std::memory_order_relaxed), std::memory_order_relaxed);
    link(rest, block->arena.higher);
    link(block, rest);
    block->bytes = bytes;
  }

  void enter_bin(Block<R>* block) noexcept {
    if (block->arena.holding == Holding::used) {
      return;
    }
    list_for(*block).add(*block);
    if (block->arena.holding == Holding::free) {
      occupied_.insert(SizeBin::of(block->bytes));
      free_bytes_.store(free_bytes() + block->bytes, std::memory_order_relaxed);
    }
  }
  void leave_bin(Block<R>* block) noexcept {
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
  BlockList<R>& list_for(Block<R> const& block) noexcept {
    return block.arena.holding == Holding::absent ? absent_ : bins_[SizeBin::of(block.bytes)];
  }

  /// A spare block with the uses of another.
  Block<R>* copy_of(Block<R> const* block) {
    spares_.newest()->record.log = block->record.log;
    return take_spare();
  }
  Block<R>* take_spare() noexcept {
    Block<R>* const spare = spares_.newest();
    spares_.remove(*spare);
    return spare;
  }
  void recycle(Block<R>* block) noexcept {
    block->record.log.clear();
    block->lent_to.store(nullptr, std::memory_order_relaxed);
    block->arena.lower = block->arena.higher = nullptr;
    spares_.add(*block);
  }

  std::array<BlockList<R>, SizeBin::kCount> bins_;
  OccupiedBins occupied_;
  std::atomic<std::size_t> free_bytes_{0};
  BlockList<R> absent_;
  BlockList<R> spares_;
  std::size_t page_bytes_ = 0;
  std::size_t populated_bytes_ = 0;
  std::size_t gap_bytes_ = 0;  ///< about what is free before blocks, and less than a page
  std::byte* first_page_ = nullptr;
  Block<R>* unpopulated_ = nullptr;
  Block<R>* made_ = nullptr;  ///< the last of all
};

/// The lock of an arena of which a block may be cut: the spare ones are made outside of it.
template <Runtime R>
[[nodiscard]] std::unique_lock<SpinLock> with_spares(std::unique_lock<SpinLock> lock,
                                                     Arena<R>& arena) {
  while (arena.needs_spares()) {
    lock.unlock();
    auto spare = std::make_unique<Block<R>>();
    lock.lock();
    arena.add_spare(std::move(spare));
  }
  return lock;
}

MSSTREAM_COMPILED_ONCE(class Arena<DefaultRuntime>);

}  // namespace msstream::memory
