// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block.hpp"
#include "memory/blocks/reuse_rules.hpp"
#include "memory/large/group_shares.hpp"
#include "memory/large/large_request.hpp"
#include "memory/large/lately.hpp"
#include "memory/small/live_bytes.hpp"
#include "memory/small/stream_caches.hpp"
#include "memory/supply/backing_memory.hpp"
#include "stream/stream_context.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace msstream::memory {

/// Allocates blocks of any size from a pool's memory: from the share of the stream's group, if it
/// has one, otherwise from the arena that all groups share. Each public function that takes a
/// LargeRequest is one step of the search for a block; pools/search_order.hpp has their order. Such
/// a function returns null if the step finds no block. Owns the blocks and the memory. Thread-safe.
class LargeAllocator {
 public:
  /// `caches` has the small blocks, and counts the memory in use. `soft_limit_bytes` is the number
  /// of reserved bytes up to which fresh memory is preferred to waits; if it is 0, the memory in
  /// use determines the limit. The other arguments are those of BackingMemory.
  LargeAllocator(std::shared_ptr<detail::StreamContext> context,
                 Space space,
                 std::shared_ptr<Capacity> capacity,
                 std::size_t growth_bytes,
                 std::size_t soft_limit_bytes,
                 StreamCaches const& caches,
                 std::shared_ptr<MemoryHistory> history = nullptr,
                 std::size_t keep_bytes = BackingMemory::kAll);
  LargeAllocator(LargeAllocator const&) = delete;
  LargeAllocator& operator=(LargeAllocator const&) = delete;
  /// Blocks the host until the last uses of all blocks, which must be free, are complete.
  ~LargeAllocator() { shares_.take_back(); }

  /// Takes a block that needs no wait, as far as the host knows.
  [[nodiscard]] Block* take_ready(LargeRequest& request);
  /// Takes fresh memory as long as little memory is free.
  [[nodiscard]] Block* grow_to_soft_limit(LargeRequest& request);
  /// Queries the runtime which uses of free memory are complete, and takes a block that needs no
  /// wait, or some more fresh memory.
  [[nodiscard]] Block* take_after_asking(LargeRequest& request);
  /// Takes still more fresh memory if the device is far behind the host, so that a wait would be
  /// long, or if many threads allocate at once.
  [[nodiscard]] Block* grow_instead_of_long_wait(LargeRequest& request);
  /// Takes a block that needs no wait from the shares of the groups, or one that the stream waits
  /// for from the share of its own group. If the device is far behind the host, puts free pages
  /// together that need no wait.
  [[nodiscard]] Block* take_from_shares(LargeRequest& request);
  /// Takes any free block that the kind of memory (device or pinned) permits, preferably one used
  /// long ago, and notes whether the stream has to wait for it.
  [[nodiscard]] Block* take_any(LargeRequest& request);
  /// Joins free neighbours and takes any block; if there is none, does so again after taking back
  /// all shares. Otherwise takes some more fresh memory.
  [[nodiscard]] Block* take_joined(LargeRequest& request);
  /// Turns slabs whose small blocks are all free into large free blocks, then takes any free block,
  /// for which the stream may have to wait. Returns null if no slab was freed or no block found.
  [[nodiscard]] Block* take_after_slabs(LargeRequest& request);
  /// Makes a block of free pages that lie apart from each other.
  [[nodiscard]] Block* take_gathered(LargeRequest& request);
  /// Takes fresh memory up to the hard limit. If there is no room, releases free memory whose uses
  /// are complete, and tries again.
  [[nodiscard]] Block* grow_to_hard_limit(LargeRequest& request);

  /// Takes a block for a slab of a stream that could use free blocks of other streams instead.
  /// Takes fresh memory up to a soft limit that PartForRivals raises. Queries the runtime about
  /// uses of free blocks only to find that limit.
  [[nodiscard]] Block* take_for_rival(LargeRequest const& request);

  enum class From : std::uint8_t { own_share_first, common };
  /// Takes the free block that fits best among those for which `ready(block)` is true, cut to
  /// `bytes`. If `from` is own_share_first, looks in the share of the stream's group first. Returns
  /// null if there is none.
  template <class Ready>
  [[nodiscard]] Block* take(std::size_t bytes,
                            detail::StreamSlot const& stream,
                            Ready&& ready,
                            From from = From::own_share_first) {
    if (from == From::own_share_first) {
      if (auto* const block = shares_.take(bytes, stream, ready)) {
        return block;
      }
    }
    return arena().access_to_cut([&] { shares_.note_contention(stream); })->take(bytes, ready);
  }
  /// Calls BackingMemory::grow(), which takes fresh memory. Before that, with the memory's lock
  /// held, tries take() once more for the stream's group.
  template <class Ready>
  [[nodiscard]] Block* grow(std::size_t bytes,
                            detail::StreamSlot const& stream,
                            std::size_t limit_bytes,
                            Ready&& ready,
                            From from = From::own_share_first) {
    return backing_.grow(
        bytes, limit_bytes, ready, [&] { return take(bytes, stream, ready, from); });
  }
  void put(Block* block) noexcept {
    if (!GroupShares::put(block)) {
      arena().put(block);
    }
  }
  /// Takes all shares back into the arena and joins all free neighbours there.
  void take_back_and_join_all() noexcept {
    shares_.take_back();
    arena().join_all();
  }

  /// Releases free memory whose last uses are complete to the runtime, until no more than `bytes`
  /// are reserved.
  void return_to_runtime(std::size_t bytes);
  /// Returns the free bytes whose uses are not known to be complete.
  [[nodiscard]] std::size_t pending_bytes() const;
  /// Returns the free bytes whose uses are known to be complete.
  [[nodiscard]] std::size_t idle_bytes() const;
  /// Returns whether the free pages whose uses are complete, together with fresh pages, are enough
  /// for `bytes`, even if other threads take them first.
  [[nodiscard]] bool has_pages_for(std::size_t bytes) const {
    return backing_.has_pages_for(bytes, rules_.over());
  }
  /// Returns whether there is no fresh memory and, in addition, either little free memory or a
  /// recent wait for free memory.
  [[nodiscard]] bool is_scarce() const noexcept {
    auto const& capacity = backing_.capacity();
    auto const is_most = [&](std::size_t live) {
      return live + capacity.limit_bytes() / kScarcePart >= capacity.reserved_bytes();
    };
    return is_limit_reached() &&
           ((is_most(live_.told()) && is_most(live_.now())) || waits_.has_happened());
  }
  /// Calls `visit(block)` for each free block of the arena and of all shares, with their locks
  /// held.
  template <class Visit>
  void for_each_free(Visit&& visit) const {
    auto const access = backing_.arena().access();  // so that no part of a share is returned
    access->for_each_free(visit);
    shares_.for_each_free(visit);
  }
  [[nodiscard]] BackingMemory& backing() noexcept { return backing_; }
  [[nodiscard]] BackingMemory const& backing() const noexcept { return backing_; }
  [[nodiscard]] GroupShares& shares() noexcept { return shares_; }

 private:
  /// The divisor of the memory limit that defines scarce memory: at most limit / kScarcePart of the
  /// reserved bytes are not in use.
  static constexpr std::size_t kScarcePart = 8;

  [[nodiscard]] LockedArena& arena() noexcept { return backing_.arena(); }
  [[nodiscard]] static From from(LargeRequest const& request) noexcept;
  [[nodiscard]] Block* take_without_wait(LargeRequest const& request);
  template <class Ask>
  [[nodiscard]] Block* take_after(LargeRequest const& request, Ask const& ask);
  [[nodiscard]] Block* take_any_after_joins(LargeRequest& request);
  [[nodiscard]] Block* grow_if_usable(LargeRequest const& request, std::size_t limit_bytes);
  bool note_wait(Block const* block, detail::StreamSlot& stream);

  [[nodiscard]] bool is_usable(Block const& free) const;
  /// Returns whether the memory limit has no room for the number of bytes that the pool takes from
  /// the runtime at a time.
  [[nodiscard]] bool is_limit_reached() const noexcept {
    auto const& capacity = backing_.capacity();
    return !capacity.has_room(growth_bytes_, capacity.limit_bytes());
  }
  [[nodiscard]] bool is_for_graph(detail::StreamSlot const& stream) const noexcept;
  [[nodiscard]] bool may_move_or_lend(detail::StreamSlot const& stream) const noexcept;

  [[nodiscard]] bool ask_about_all(detail::StreamSlot& stream);
  void note_answer(bool is_of_use) noexcept;
  void ask_what_is_over();

  [[nodiscard]] std::size_t soft_limit(std::size_t wanted, std::size_t percent) const noexcept;
  [[nodiscard]] std::size_t higher_soft_limit(std::size_t wanted, std::size_t percent);
  [[nodiscard]] std::size_t needed_bytes();
  [[nodiscard]] std::size_t with_spare(std::size_t wanted, std::size_t percent) const noexcept;
  [[nodiscard]] std::chrono::nanoseconds lag_of_wait(std::size_t bytes, detail::StreamSlot& stream);

  Space space_;
  std::size_t growth_bytes_;
  std::size_t soft_limit_bytes_;
  StreamCaches const& caches_;
  LiveBytes const& live_;
  ReuseRules rules_;
  GroupShares shares_;
  BackingMemory backing_;  ///< destroyed before the shares, which own some of its blocks
  Lately waits_;           ///< the last wait of a stream for free memory
  Lately counted_;
  std::atomic<std::chrono::nanoseconds> between_counts_;
  Lately asked_;
  std::atomic<std::chrono::microseconds> between_asks_;
  std::atomic<std::uint64_t> growths_at_count_{0};
  std::atomic<std::size_t> in_flight_bytes_{0};
  std::mutex counting_;  ///< held by the thread that counts the bytes in flight
};

}  // namespace msstream::memory
