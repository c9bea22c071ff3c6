// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"
#include "memory/blocks/block.hpp"
#include "memory/blocks/block_uses.hpp"
#include "memory/blocks/hands.hpp"
#include "memory/blocks/reuse_rules.hpp"
#include "memory/blocks/size_class.hpp"
#include "memory/large/large_allocator.hpp"
#include "memory/pools/block_pool_options.hpp"
#include "memory/reports/memory_history.hpp"
#include "memory/reports/memory_use.hpp"
#include "memory/small/rivalry.hpp"
#include "memory/small/slabs.hpp"
#include "memory/small/stream_caches.hpp"
#include "stream/stream_context.hpp"

#include <msstream/base/error.hpp>
#include <msstream/memory/statistics.hpp>
#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace msstream::memory {

/// A pool of device or pinned memory for all streams of a device.
///
/// Free small blocks are in the StreamCache of the stream that allocated them, each cache with a
/// lock of its own; they are cut from slabs. LargeAllocator provides slabs and larger blocks.
/// pools/search_order.hpp has the order in which an allocation searches for memory. The host blocks
/// only in calls of the runtime that take or move memory, and, if there is no other memory, until
/// the device has finished with freed memory. Thread-safe.
class BlockPool {
 public:
  using DeviceOwner = std::shared_ptr<detail::DeviceState>;

  BlockPool(std::shared_ptr<detail::StreamContext> context, Space space, BlockPoolOptions options);
  BlockPool(BlockPool const&) = delete;
  BlockPool& operator=(BlockPool const&) = delete;
  /// Runs when no block is in use: each block in use keeps its device alive, and thereby the pool.
  ~BlockPool() { return_slabs(nullptr); }

  /// Returns a block of at least `bytes` whose first use is on `stream`. The contents are
  /// undefined. Throws OutOfMemory.
  [[nodiscard]] BlockRef allocate(std::size_t bytes,
                                  detail::StreamSlot& stream,
                                  DeviceOwner const& device) {
    auto& cache = caches_.of(stream.index);
    bool waits = false;
    Block* block = bytes <= Slabs::kMostBytes
                       ? own_ready(SizeClass::of(bytes).index, stream, cache, device)
                       : nullptr;
    if (block == nullptr) {
      block = find(bytes, stream);
      waits = !rules_.is_ready(*block, stream);
      cache.use(*block, device, waits);
    }
    if (!detail::works(detail::Mechanism::reuse_follows_uses)) {
      block->record.log.clear();
    }
    block->pool = this;
    block->home = stream.index;
    BlockRef reference(block);
    if (history_ != nullptr) [[unlikely]] {
      auto taken = event(MemorySnapshot::Event::Kind::take, *block);
      taken.waits = waits;
      history_->note(std::move(taken));
    }
    if (is_observed_) [[unlikely]] {
      large_.backing().runtime().memory_taken(block->data, block->bytes);
    }
    return reference;
  }

  void give_back(Block* block) noexcept {
    if (home_.is_left()) [[unlikely]] {
      detail::HomeProcess::keep(*block->device);
      return;
    }
    if (is_observed_) [[unlikely]] {
      large_.backing().runtime().memory_returned(block->data, block->bytes);
    }
    if (history_ != nullptr) [[unlikely]] {
      history_->note(event(MemorySnapshot::Event::Kind::give_back, *block));
    }
    DeviceOwner device;  // may be the last owner of this pool, so released at the end
    try {
      if (block->immutable.load(std::memory_order_relaxed)) {
        block->immutable.store(false, std::memory_order_relaxed);
        block->lost.store(false, std::memory_order_relaxed);
        note_untracked_reads(*block);
      }
      if (block->shared_outside.load(std::memory_order_relaxed)) [[unlikely]] {
        // Code outside has let go of the block.
        block->shared_outside.store(false, std::memory_order_relaxed);
      }
      bool const is_large = block->size_class == SizeClass::kNone;
      mark_point_of_return(*block);
      device = caches_.of(block->home).end_use(block);
      if (is_large) {
        large_.put(block);
      }
    } catch (std::bad_alloc const&) {  // NOLINT(bugprone-empty-catch): block is lost
      // If the host has no memory to note that the block is free, the block stays unused until the
      // memory that it was cut from is released.
    }
  }

  void add_to(MemorySnapshot& snapshot) const;
  /// Returns all blocks in use. The caller must keep each of them alive during the call.
  [[nodiscard]] std::vector<BlockRef> blocks_in_use() const;
  /// Sets whether the device is destroyed when its last block in use is freed.
  void set_abandoned(bool abandoned) { caches_.set_abandoned(abandoned); }

  /// Returns the memory in use by name scope and stream, the largest first.
  [[nodiscard]] std::vector<ScopeMemory> use_by_scope() const;
  void add_use(MemoryUseByScope& use) const;
  void add_use(MemoryUseByStream& use) const;

  /// Returns the peak of the bytes in use since the last call.
  [[nodiscard]] std::size_t take_recent_peak() noexcept {
    return caches_.live().take_recent_peak();
  }
  [[nodiscard]] MemoryStatistics statistics() const;
  [[nodiscard]] std::size_t reserved_bytes() const noexcept {
    return large_.backing().capacity().reserved_bytes();
  }
  [[nodiscard]] std::size_t live_bytes() const noexcept { return caches_.live().now(); }
  /// Returns the free bytes in large blocks whose uses are known to be complete. Does not query the
  /// runtime.
  [[nodiscard]] std::size_t idle_bytes() const { return large_.idle_bytes(); }
  /// Returns the free bytes in large blocks whose uses are not known to be complete.
  [[nodiscard]] std::size_t pending_bytes() const {
    std::lock_guard const guard(hands_);
    return large_.pending_bytes();
  }
  /// Releases free memory whose last uses are complete to the runtime, until no more than `bytes`
  /// are reserved. Blocks briefly.
  void return_cached_memory(std::size_t bytes = 0) {
    return_slabs(&hands_);
    large_.return_to_runtime(bytes);
  }

 private:
  friend struct SearchStep;
  friend struct SearchOrder;

  /// One request for a block, with the state of those steps of its search that wait.
  struct Search {
    std::size_t bytes;
    detail::StreamSlot& stream;
    Hands* hands;  ///< null if the thread holds the lock alone
    std::chrono::steady_clock::time_point deadline{};
    int tries_of_room_made = 0;
    bool has_hope = false;  ///< whether memory may come free without the calling thread
  };

  static constexpr std::size_t kLargerClassesTried = 2 * SizeClass::kStepsPerDoubling;
  static constexpr std::chrono::microseconds kBetweenLooks{20};
  static constexpr int kTriesOfRoomMade = 64;

  /// Takes a device block that needs no wait from the stream's own cache. This is the start of the
  /// first step of the search, which most requests never leave. Returns null if there is none.
  Block* own_ready(std::size_t size_class,
                   detail::StreamSlot& stream,
                   StreamCache& cache,
                   DeviceOwner const& device) {
    if (space_ == Space::pinned) {
      return nullptr;
    }
    return cache.use_ready(
        size_class, [&](auto const& block) { return rules_.is_followed(block, stream); }, device);
  }
  [[nodiscard]] Block* find(std::size_t bytes, detail::StreamSlot& stream);
  [[nodiscard]] Block* try_steps(Search& search, int first, int last);

  // Steps of the search that are only for small blocks.
  [[nodiscard]] Block* take_ready(Search& search);
  [[nodiscard]] Block* cut_without_wait(Search& search);
  [[nodiscard]] Block* take_after_asking(Search& search);
  [[nodiscard]] Block* take_any(Search& search);
  [[nodiscard]] Block* cut_any(Search& search);
  [[nodiscard]] Block* take_any_larger(Search& search);
  // Steps of the search that are for blocks of any size. Each searches again when more memory may
  // have become free.
  [[nodiscard]] Block* search_after_room_is_made(Search& search);
  [[nodiscard]] Block* search_while_waiting(Search& search);
  [[nodiscard]] Block* search_after_callback(Search& search);

  [[nodiscard]] Block* cut_for_rival(Search& search);
  [[nodiscard]] Block* reusable(std::size_t size_class, detail::StreamSlot& stream);
  [[nodiscard]] Block* reusable_when_asked(std::size_t size_class, detail::StreamSlot& stream);
  [[nodiscard]] Block* any_free(std::size_t first, std::size_t last, detail::StreamSlot& stream);
  template <class Obtain>
  [[nodiscard]] Block* cut_from_new_slab(Search& search, Obtain&& obtain);
  [[nodiscard]] Block* search_with_room(Search& search);
  bool return_slabs(Hands* hands);

  void note_untracked_reads(Block& block);
  /// If fresh memory is scarce, makes the streams that used the block record an event now: the next
  /// owner, which is likely to wait, then need not wait for their later work.
  void mark_point_of_return(Block const& block) noexcept {
    if (space_ == Space::device && !block.record.log.empty() && large_.is_scarce()) {
      for_each_use(block, [this](order::Position use) { tracker_->want_event(use); });
    }
  }
  [[nodiscard]] OutOfMemory out_of_memory(std::size_t bytes) const;
  [[nodiscard]] static MemorySnapshot::Event event(MemorySnapshot::Event::Kind kind,
                                                   Block const& block);

  StreamCaches caches_;
  detail::HomeProcess home_;
  std::shared_ptr<detail::DependencyTracker> tracker_;
  bool const is_observed_;  ///< whether the runtime is notified when blocks are taken and returned
  Space space_;
  std::size_t growth_bytes_;
  std::chrono::milliseconds wait_for_frees_;
  bool has_frees_to_wait_for_;
  std::function<Room()> make_room_;
  std::function<bool(OutOfMemory const&)> on_out_of_memory_;
  std::function<MemoryAccount()> account_;
  std::function<void(int)> on_step_;
  std::shared_ptr<MemoryHistory> history_;
  std::size_t keep_bytes_;
  ReuseRules rules_;
  LargeAllocator large_;
  Slabs slabs_;
  PartForRivals part_for_rivals_;
  mutable Hands hands_;
};

}  // namespace msstream::memory
