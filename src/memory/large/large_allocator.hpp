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

/// Allocates blocks of any size from the memory that a pool has: from the share of the stream's
/// group, if any, otherwise from the arena that all groups share. Each public function that takes a
/// LargeRequest is one step of the search for a block; pools/search_order.hpp has their order. Such
/// a function returns null if the step finds no block. Owns the blocks and the memory. Thread-safe.
class LargeAllocator {
 public:
  /// `caches` has the small blocks, and counts the memory in use. `soft_limit_bytes`: the reserved
  /// bytes up to which fresh memory is preferred to waits; 0: the memory in use determines them.
  /// The other arguments are those of BackingMemory.
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
  /// Waits for the last uses of all blocks, which must be free.
  ~LargeAllocator() { shares_.take_back(); }

  /// Takes a block that needs no wait, as far as the host knows.
  [[nodiscard]] Block* take_ready(LargeRequest& request);
  /// Takes fresh memory while little memory is free.
  [[nodiscard]] Block* grow_to_soft_limit(LargeRequest& request);
  /// Asks the runtime which uses of free memory are complete, and takes a block that needs no wait,
  /// or some more fresh memory.
  [[nodiscard]] Block* take_after_asking(LargeRequest& request);
  /// Takes still more fresh memory if the device is far behind, so that a wait would be long, or if
  /// many threads allocate at once.
  [[nodiscard]] Block* grow_instead_of_long_wait(LargeRequest& request);
  /// Takes from shares what needs no wait, or what the group waits for once. If the device is far
  /// behind, puts pages together that need no wait.
  [[nodiscard]] Block* take_from_shares(LargeRequest& request);
  /// Takes any free block that the space permits, and notes whether the stream has to wait for it;
  /// first the one used longest ago.
  [[nodiscard]] Block* take_any(LargeRequest& request);
  /// Joins free neighbours, then takes back all shares. After that, takes some more fresh memory.
  [[nodiscard]] Block* take_joined(LargeRequest& request);
  /// Takes any block after free small blocks were turned into large ones.
  [[nodiscard]] Block* take_after_slabs(LargeRequest& request);
  /// Puts free pages together that lie apart.
  [[nodiscard]] Block* take_gathered(LargeRequest& request);
  /// Takes fresh memory up to the hard limit; then releases complete free memory first.
  [[nodiscard]] Block* grow_to_hard_limit(LargeRequest& request);

  /// Takes a block for a slab of a stream that could use free blocks of other streams instead: asks
  /// the runtime about uses of free blocks only to find the soft limit, which PartForRivals raises.
  [[nodiscard]] Block* take_for_rival(LargeRequest const& request);

  enum class From : std::uint8_t { own_share_first, common };
  /// Takes the free block that fits best among those that are `ready(block)`, cut to `bytes`; first
  /// from the share of the stream's group, if `from` says so. Null if there is none.
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
  /// Like BackingMemory::grow(), but first tries take() again for the stream's group.
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
  /// Whether the free pages with complete uses, and fresh pages, are enough for `bytes`, even if
  /// other threads take them first.
  [[nodiscard]] bool has_pages_for(std::size_t bytes) const {
    return backing_.has_pages_for(bytes, rules_.over());
  }
  /// Whether there is no fresh memory and, in addition, little free memory or a recent wait for it.
  [[nodiscard]] bool is_scarce() const noexcept {
    auto const& capacity = backing_.capacity();
    auto const is_most = [&](std::size_t live) {
      return live + capacity.limit_bytes() / kScarcePart >= capacity.reserved_bytes();
    };
    return is_limit_reached() &&
           ((is_most(live_.told()) && is_most(live_.now())) || waits_.has_happened());
  }
  /// Calls `visit(block)` for each free block, under the locks of the arena and of the shares.
  template <class Visit>
  void for_each_free(Visit&& visit) const {
    auto const access = backing_.arena().access();  // keeps shares from returning meanwhile
    access->for_each_free(visit);
    shares_.for_each_free(visit);
  }
  [[nodiscard]] BackingMemory& backing() noexcept { return backing_; }
  [[nodiscard]] BackingMemory const& backing() const noexcept { return backing_; }
  [[nodiscard]] GroupShares& shares() noexcept { return shares_; }

 private:
  /// Memory is scarce if at most limit / kScarcePart of the reserved bytes are not in use.
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
  /// Whether the limit has no room for the number of bytes taken at a time.
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
  BackingMemory backing_;  ///< destroyed before the shares, some of whose blocks its arena has
  Lately waits_;           ///< the last wait for free memory that another stream uses
  Lately counted_;
  std::atomic<std::chrono::nanoseconds> between_counts_;
  Lately asked_;
  std::atomic<std::chrono::microseconds> between_asks_;
  std::atomic<std::uint64_t> growths_at_count_{0};
  std::atomic<std::size_t> in_flight_bytes_{0};
  std::mutex counting_;  ///< held by the thread that counts
};

}  // namespace msstream::memory
