// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/function_ref.hpp"
#include "memory/blocks/block.hpp"
#include "memory/blocks/locked_arena.hpp"
#include "memory/reports/memory_history.hpp"
#include "memory/supply/capacity.hpp"
#include "memory/supply/page_range.hpp"
#include "stream/stream_context.hpp"

#include <msstream/runtime/detail/backend.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

namespace msstream::memory {

using BlockPredicate = detail::FunctionRef<bool(Block const&)>;

/// The memory that a pool has taken from the runtime, under limits, with the arena that cuts it
/// into blocks. Takes memory, moves pages within the arena, and releases memory.
///
/// If the runtime has pages, all memory is in one range of addresses, so that neighbours can be
/// joined whenever they were taken, and free pages that lie apart from each other can be put
/// together. Otherwise memory comes in pieces, which stay apart. Bytes are counted before they are
/// taken, so the limits hold. Thread-safe: a lock of its own, not the arena's, guards changes of
/// the memory, and is held during calls of the runtime.
class BackingMemory {
 public:
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  /// Takes memory in steps of `growth_bytes`, unless a request needs more. Before another piece is
  /// taken, free pieces whose uses are complete are released until they have no more than
  /// `keep_bytes`.
  BackingMemory(std::shared_ptr<detail::StreamContext> context,
                Space space,
                std::shared_ptr<Capacity> capacity,
                std::size_t growth_bytes,
                std::shared_ptr<MemoryHistory> history = nullptr,
                std::size_t keep_bytes = kAll);
  BackingMemory(BackingMemory const&) = delete;
  BackingMemory& operator=(BackingMemory const&) = delete;
  /// Blocks the host until the last uses of all blocks, which must be free and in the arena, are
  /// complete.
  ~BackingMemory();

  /// Takes memory from the runtime and cuts a block from it, together with the free block before it
  /// if `ready(block)` is true for that. With the lock held, first calls `find_again()` and returns
  /// its block, if any. Returns null if the memory limit, a lower `limit_bytes`, or the runtime
  /// leaves no memory.
  [[nodiscard]] Block* grow(std::size_t bytes,
                            std::size_t limit_bytes,
                            BlockPredicate ready,
                            detail::FunctionRef<Block*()> find_again);
  /// Makes a block of free pages that lie apart from each other, from blocks for which
  /// `usable(block)` is true; first those for which `over(block)` is true, then those for which
  /// `ready(block)` is true. Pages with incomplete uses keep their old addresses for that work, and
  /// the new block follows it. Returns null if there are not enough pages, or the runtime has none.
  [[nodiscard]] Block* gather(std::size_t bytes,
                              BlockPredicate over,
                              BlockPredicate ready,
                              BlockPredicate usable);
  /// Makes a block of free pages that lie apart from each other, as gather() does, but returns null
  /// if another thread is about to change the memory.
  [[nodiscard]] Block* try_gather(std::size_t bytes,
                                  BlockPredicate over,
                                  BlockPredicate ready,
                                  BlockPredicate usable);
  /// Returns whether the arena's free pages in blocks for which `usable(block)` is true, and the
  /// pages for which the limits have room, are enough for `bytes`.
  [[nodiscard]] bool has_pages_for(std::size_t bytes, BlockPredicate usable) const;
  /// Releases free memory for which `over(block)` is true to the runtime, until no more than
  /// `bytes` are reserved. First calls `take_back()`, which puts more free memory into the arena.
  void trim(std::size_t bytes, BlockPredicate over, detail::FunctionRef<void()> take_back);

  /// Calls `visit(block)` for the old addresses of moved pages that the device may still use.
  template <class Visit>
  void for_each_moved(Visit&& visit) const {
    std::lock_guard const changing(mutex_);
    std::for_each(moved_.begin(), moved_.end(), visit);
  }
  [[nodiscard]] LockedArena& arena() noexcept { return arena_; }
  [[nodiscard]] LockedArena const& arena() const noexcept { return arena_; }
  [[nodiscard]] Capacity& capacity() const noexcept { return *capacity_; }
  [[nodiscard]] detail::Backend& runtime() const noexcept { return *context_->runtime; }
  /// Returns how many times memory was taken from the runtime.
  [[nodiscard]] std::uint64_t growths() const noexcept { return growths_.load(); }

 private:
  using Span = PageRange::Span;
  /// Memory that was put behind addresses, with the uses that the memory's next owner must follow.
  struct Populated {
    std::size_t bytes = 0;
    order::AccessLog uses;
  };
  /// The last free block before the addresses without memory, and those addresses.
  struct Last {
    Block* block;    ///< now in use; null if there is none
    Span addresses;  ///< the addresses behind the block, without memory
  };
  /// A piece of memory from a runtime without pages.
  struct Piece {
    std::byte* begin;
    std::size_t bytes;
  };

  [[nodiscard]] bool is_paged() const noexcept { return range_.bytes() != 0; }
  Block* gather_locked(std::size_t bytes,
                       BlockPredicate over,
                       BlockPredicate ready,
                       BlockPredicate usable);
  Last take_last(std::size_t bytes, BlockPredicate ready);
  template <class Provide>
  Block* extend(std::size_t bytes, BlockPredicate ready, Provide&& provide);
  Block* add_populated(Block* last, std::byte* at, Populated& populated, std::size_t bytes);
  template <class Usable>
  std::size_t free_page_bytes(Usable&& usable) const;
  template <class Usable>
  Block* take_pages(std::size_t most_bytes, Usable&& usable);
  void move_pages(std::byte* to,
                  std::size_t needed,
                  BlockPredicate over,
                  BlockPredicate ready,
                  BlockPredicate usable,
                  Populated& moved);
  bool move_or_put_back(std::byte* to, Block* pages, order::AccessLog& uses);
  void leave_moved(BlockPredicate over);
  void unmap(std::byte* at, std::size_t bytes) noexcept;
  std::size_t unmap_idle(std::size_t most_bytes, BlockPredicate over);
  Block* grow_by_piece(std::size_t bytes, std::size_t limit_bytes);
  void release_idle_pieces(std::size_t bytes, BlockPredicate over);
  std::size_t free_idle_piece(BlockPredicate over);
  void free_memory_of(Piece const& piece) noexcept;
  template <class Obtain>
  std::byte* take(std::size_t bytes, std::size_t limit_bytes, Obtain&& obtain);
  void note(MemorySnapshot::Event::Kind kind, std::byte const* at, std::size_t bytes) noexcept;

  std::shared_ptr<detail::StreamContext> context_;
  Space space_;
  std::size_t growth_bytes_;
  std::size_t keep_bytes_;
  LockedArena arena_;

  mutable std::mutex mutex_;  ///< guards changes of all members below
  std::shared_ptr<Capacity> capacity_;
  std::shared_ptr<MemoryHistory> history_;  ///< null if events are not recorded
  PageRange range_;                         ///< empty if memory comes in pieces
  std::vector<Piece> pieces_;
  std::vector<Block*> moved_;  ///< the old addresses of moved pages that the device may still use
  std::atomic<std::uint64_t> growths_{0};
};

}  // namespace msstream::memory
