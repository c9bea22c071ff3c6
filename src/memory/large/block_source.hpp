// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block.hpp"
#include "memory/blocks/block_uses.hpp"
#include "memory/large/lately.hpp"
#include "memory/large/lent_memory.hpp"
#include "memory/reports/memory_history.hpp"
#include "memory/supply/capacity.hpp"
#include "memory/supply/common_arena.hpp"
#include "memory/supply/memory_supply.hpp"
#include "memory/supply/runtime_memory.hpp"
#include "stream/stream_context.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace msstream::memory {

/// Allocates blocks of any size. A stream group takes from its LentMemory (memory set aside for the
/// group), if any; otherwise from the arena that all groups share. Owns the blocks and the memory.
/// Thread-safe.
class BlockSource {
 public:
  BlockSource(std::shared_ptr<detail::StreamContext> context,
              Space space,
              std::shared_ptr<Capacity> capacity,
              std::size_t growth_bytes,
              std::shared_ptr<MemoryHistory> history = nullptr,
              std::size_t keep_bytes = MemorySupply::kAll)
      : context_(std::move(context)),
        arena_(context_->tracker),
        supply_(context_,
                space,
                std::move(capacity),
                growth_bytes,
                std::move(history),
                arena_,
                keep_bytes) {}
  BlockSource(BlockSource const&) = delete;
  BlockSource& operator=(BlockSource const&) = delete;
  /// Waits for the last uses of all blocks, which must be free.
  ~BlockSource() {
    for_each_free([&](Block* block) {
      for_each_use(*block, [&](order::Position use) { context_->tracker->finish(use); });
      block->record.log.clear();
    });
    take_back_and_join_all();
  }

  enum class From : std::uint8_t { own_part_first, common };

  /// Takes the free block that fits best among those that are `ready(block)`, cut to `bytes`; first
  /// from the LentMemory of the stream's group, if `from` says so. Null if there is none.
  template <class Ready>
  [[nodiscard]] Block* take(std::size_t bytes,
                            detail::StreamSlot const& stream,
                            Ready&& ready,
                            From from = From::own_part_first) {
    auto& lent = lent_.of(stream);
    if (auto* const block = from == From::own_part_first ? lent.take(bytes, ready) : nullptr) {
      return block;
    }
    return arena_.access_to_cut([&] { lent.note_contention(); })->take(bytes, ready);
  }
  /// Like take(), but from the LentMemory of any group.
  template <class Ready>
  [[nodiscard]] Block* take_lent(std::size_t bytes, Ready&& ready) {
    Block* found = nullptr;
    lent_.for_each(
        [&](LentMemory& lent) { found = found != nullptr ? found : lent.take(bytes, ready); });
    return found;
  }
  /// Takes a block from the LentMemory of the stream's group whether or not the stream must wait
  /// for its uses. Null if there is none.
  [[nodiscard]] Block* take_own(std::size_t bytes, detail::StreamSlot const& stream) {
    return lent_.of(stream).take(bytes, [](auto const&) { return true; });
  }
  /// Like CommonArena::take_cheapest(); does not search LentMemory.
  template <class Cost>
  [[nodiscard]] Block* take_cheapest(std::size_t bytes, Cost&& cost) {
    return arena_.take_cheapest(bytes, cost);
  }
  template <class Cost>
  [[nodiscard]] order::PositionSet uses_of_cheapest(std::size_t bytes, Cost&& cost) const {
    return arena_.uses_of_cheapest(bytes, cost);
  }

  /// Whether the stream's group has often found the lock of the arena taken since the last call
  /// that returned true.
  [[nodiscard]] bool take_much_contention(detail::StreamSlot const& stream) {
    if (!lent_.of(stream).take_much_contention()) [[likely]] {
      return false;
    }
    contention_.note();
    return true;
  }
  /// Whether any group has often found the lock of the arena taken within the last second.
  [[nodiscard]] bool is_contended() const noexcept { return contention_.has_happened(); }
  /// Adds a free block of `bytes` that is `ready(block)` to the group's LentMemory, for this group
  /// alone until an allocation finds no memory. False if there is no such block, or the group has
  /// enough. During the call, other threads may miss the block.
  template <class Ready>
  bool lend(std::size_t bytes, LentMemory& group, Ready&& ready) {
    return lend_taken(group, arena_.take(bytes, ready));
  }
  /// Like lend(), but takes the block with the least `cost(block)`.
  template <class Cost>
  bool lend_cheapest(std::size_t bytes, LentMemory& group, Cost&& cost) {
    return lend_taken(group, arena_.take_cheapest(bytes, cost));
  }
  /// Like lend(), but gathers the block from all free pages, unless another thread is about to
  /// change the memory.
  template <class Over, class Ready>
  bool lend_gathered(std::size_t bytes, LentMemory& group, Over&& over, Ready&& ready) {
    auto const usable = [](auto const&) { return true; };
    return lend_taken(group, supply_.try_gather(bytes, over, ready, usable));
  }
  [[nodiscard]] LentMemories& lent() noexcept { return lent_; }

  /// Like MemorySupply::grow(), but first tries take() again for the stream's group.
  template <class Ready>
  [[nodiscard]] Block* grow(std::size_t bytes,
                            detail::StreamSlot const& stream,
                            std::size_t limit_bytes,
                            Ready&& ready,
                            From from = From::own_part_first) {
    return supply_.grow(
        bytes, limit_bytes, ready, [&] { return take(bytes, stream, ready, from); });
  }
  /// Like MemorySupply::gather().
  template <class Over, class Ready, class Usable>
  [[nodiscard]] Block* gather(std::size_t bytes, Over&& over, Ready&& ready, Usable&& usable) {
    return supply_.gather(bytes, over, ready, usable);
  }
  template <class Over, class Ready>
  [[nodiscard]] Block* try_gather(std::size_t bytes, Over&& over, Ready&& ready) {
    return supply_.try_gather(bytes, over, ready, ready);
  }
  /// Like MemorySupply::has_pages_for(); does not count LentMemory.
  template <class Usable>
  [[nodiscard]] bool has_pages_for(std::size_t bytes, Usable&& usable) const {
    return supply_.has_pages_for(bytes, usable);
  }
  /// Releases free memory whose uses are `over(block)`, including LentMemory, to the runtime until
  /// no more than `bytes` are reserved.
  template <class Over>
  void trim(std::size_t bytes, Over&& over) {
    supply_.trim(bytes, over, [this] { take_back_lent(); });
  }

  void put(Block* block) noexcept {
    auto* const lent = block->lent_to.load(std::memory_order_acquire);
    if (lent == nullptr || !lent->put(block)) {
      arena_.put(block);
    }
  }
  void join_what_is_over() noexcept { arena_.join_what_is_over(); }
  /// Joins all free neighbours in the arena, whichever streams used them.
  void join_all() noexcept { arena_.join_all(); }
  /// Takes all LentMemory back into the arena and joins all free neighbours there.
  void take_back_and_join_all() noexcept {
    take_back_lent();
    join_all();
  }

  /// Calls `visit(block)` for the old addresses of moved pages that the device still uses.
  template <class Visit>
  void for_each_moved(Visit&& visit) const {
    supply_.for_each_moved(visit);
  }
  /// Calls `visit(block)` for each free block, under the locks of the arena and of the LentMemory.
  template <class Visit>
  void for_each_free(Visit&& visit) const {
    auto const arena = arena_.access();  // keeps LentMemory from returning meanwhile
    arena->for_each_free(visit);
    lent_.for_each([&](LentMemory const& lent) { lent.for_each_free(visit); });
  }
  [[nodiscard]] std::size_t largest_free_bytes() const noexcept {
    return arena_.largest_free_bytes();
  }
  [[nodiscard]] detail::Backend& runtime() const noexcept { return *context_->runtime; }
  [[nodiscard]] Capacity& capacity() const noexcept { return supply_.capacity(); }
  [[nodiscard]] std::uint64_t growths() const noexcept { return supply_.growths(); }

 private:
  /// Adds a used block of the arena to the group's LentMemory, or frees the block if it cannot be
  /// added. False if it was not added, or is null.
  bool lend_taken(LentMemory& group, Block* block) noexcept {
    bool const is_lent = block != nullptr && group.add(block);
    if (block != nullptr && !is_lent) {
      arena_.put(block);
    }
    return is_lent;
  }
  void take_back_lent() noexcept {
    auto const arena = arena_.access();
    lent_.for_each([&](LentMemory& lent) { lent.give_back(*arena); });
  }

  std::shared_ptr<detail::StreamContext> context_;
  CommonArena arena_;
  alignas(64) LentMemories lent_;
  Lately contention_;
  MemorySupply supply_;  ///< destroyed first, when the arena has all LentMemory back
};

}  // namespace msstream::memory
