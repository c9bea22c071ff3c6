// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/device/open_capture.hpp"
#include "memory/pools/block_pool.hpp"
#include "memory/pools/capture_pools.hpp"
#include "memory/pools/idle_cache.hpp"
#include "memory/pools/pools.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/memory/allocator_options.hpp>
#include <msstream/memory/statistics.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::detail {

/// Allocates device memory for all streams of a device, and reuses it across streams without races;
/// see memory::BlockPool. Thread-safe.
class StreamAwareAllocator {
 public:
  StreamAwareAllocator(std::shared_ptr<StreamContext> const& context, AllocatorOptions options)
      : options_(std::move(options)), context_(context), capture_pools_(context->tracker) {
    require(options_.limit_fraction > 0 && options_.limit_fraction <= 1,
            "AllocatorOptions::limit_fraction is {}; expected more than 0 and at most 1",
            options_.limit_fraction);
    require(options_.private_pools >= 1, "AllocatorOptions::private_pools: expected at least 1");
    auto const count =
        options_.mode == PoolMode::shared ? std::size_t{1} : std::size_t(options_.private_pools);
    auto const limit = limit_bytes(*context->runtime);
    if (options_.history_events != 0) {
      history_ = std::make_shared<memory::MemoryHistory>(options_.history_events);
    }
    auto const limits = options_.mode == PoolMode::private_pools ? count : 1;
    for (std::size_t i = 0; i < limits; ++i) {
      limits_.push_back(std::make_shared<memory::Capacity>(limit / limits));
    }
    for (std::size_t i = 0; i < count; ++i) {
      pools_.add(context, memory::Space::device, pool_options(i));
    }
  }

  /// Returns a block of at least `bytes` whose first use is on `stream`. The contents are
  /// undefined. Throws OutOfMemory.
  [[nodiscard]] memory::BlockRef allocate(std::size_t bytes,
                                          StreamSlot& stream,
                                          std::shared_ptr<DeviceState> const& device) {
    if (stream.capture.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
      return OpenCapture::of_this_thread(*context_).pool_of(stream).allocate(bytes, stream, device);
    }
    return pools_.of(stream).allocate(bytes, stream, device);
  }

  /// Returns memory pools for one capture, or for several captures that share them, under the
  /// limits of all other pools. The pools take at most `growth_bytes` at a time from the runtime.
  /// While they have an owner, none of their memory is released to the runtime; afterwards all of
  /// it is, at a call of CapturePools::sweep() or when an allocation finds no memory.
  [[nodiscard]] std::shared_ptr<memory::Pools> make_capture_pools(
      std::size_t growth_bytes = std::numeric_limits<std::size_t>::max()) {
    auto pools = make_at_home<memory::Pools>(context_->home);
    for (std::size_t i = 0; i < pools_.count(); ++i) {
      auto options = pool_options(i);
      // The addresses reserved for a capture's pool are few, because captures may have many small
      // pools, and their pages are not moved.
      options.capacity = std::make_shared<memory::Capacity>(limits_[i % limits_.size()],
                                                            pools_.count() == 1 ? 2 : 1);
      options.growth_bytes = std::min(options.growth_bytes, growth_bytes);
      options.soft_limit_bytes = options_.soft_limit_bytes;
      options.has_frees_to_wait_for = false;
      options.make_room = [this] { return make_room(true); };
      pools->add(context_, memory::Space::device, std::move(options));
    }
    capture_pools_.add(pools);
    return pools;
  }
  /// Returns the pools of captures, and the captures that will not be launched again.
  [[nodiscard]] memory::CapturePools& capture_pools() noexcept { return capture_pools_; }

  /// Returns the statistics of all pools. Free memory in a capture's pools is for its graph, and
  /// counts as cached.
  [[nodiscard]] MemoryStatistics statistics() const {
    MemoryStatistics total;
    for_each_pool([&](memory::BlockPool const& pool) { total += pool.statistics(); });
    static_cast<detail::AllocationCounts&>(total) += capture_pools_.counts_of_gone();
    total.reserved_bytes = total.peak_reserved_bytes = total.limit_bytes = 0;
    total.cache_limit_bytes = options_.keep_bytes;
    for (auto const& limit : limits_) {
      total.reserved_bytes += limit->reserved_bytes();
      total.peak_reserved_bytes += limit->peak_reserved_bytes();
      total.limit_bytes += limit->limit_bytes();
    }
    // The sum of the pools' peaks may be too large, because they may peak at different times.
    total.peak_live_bytes = std::min(total.peak_live_bytes, total.peak_reserved_bytes);
    return total;
  }
  /// Returns the memory in use by name scope and stream, the largest first.
  [[nodiscard]] std::vector<ScopeMemory> use_by_scope() const {
    memory::MemoryUseByScope use;
    for_each_pool([&](memory::BlockPool const& pool) { pool.add_use(use); });
    return std::move(use).sorted();
  }
  /// Returns, for each stream, the memory in use and how often the stream waited for memory; the
  /// oldest stream first. A stream that gets the index of a destroyed stream continues its counts.
  [[nodiscard]] std::vector<StreamMemory> use_by_stream() const {
    memory::MemoryUseByStream use;
    for_each_pool([&](memory::BlockPool const& pool) { pool.add_use(use); });
    return std::move(use).sorted();
  }

  /// Returns all memory, range by range. Other threads may allocate meanwhile, so each range
  /// existed at some time during the call, but perhaps not all at once.
  [[nodiscard]] MemorySnapshot snapshot() const {
    MemorySnapshot snapshot{statistics(), {}, {}, {}, use_by_stream()};
    for_each_pool([&](memory::BlockPool const& pool) { pool.add_to(snapshot); });
    std::sort(snapshot.ranges.begin(), snapshot.ranges.end(), [](auto const& a, auto const& b) {
      return a.address < b.address;
    });
    if (history_ != nullptr) {
      snapshot.events = history_->events();
      snapshot.streams = context_->tracker->stream_names();
    }
    return snapshot;
  }

  /// Releases free memory whose last uses are complete to the runtime, until each pool reserves no
  /// more than `bytes`. Blocks briefly.
  void return_cached_memory(std::size_t bytes = 0) { pools_.return_cached_memory(bytes); }
  /// Releases the memory to the runtime that AllocatorOptions::keep_bytes and return_after say.
  /// Called after the host has waited for the device, when most uses are complete.
  void release_unneeded() {
    capture_pools_.sweep();
    if (options_.keep_bytes < all_reserved_bytes()) {
      return_cached_memory(options_.keep_bytes / pools_.count());
    }
    if (options_.return_after.count() == 0) {
      return;
    }
    auto const now = std::chrono::steady_clock::now();
    std::unique_lock const guard(recent_mutex_, std::try_to_lock);
    if (guard.owns_lock() && now - recent_since_ >= options_.return_after) {
      recent_since_ = now;
      pools_.for_each([](memory::BlockPool& pool) {
        auto const recent = pool.take_recent_peak();
        pool.return_cached_memory(recent + recent / 4);
      });
    }
  }
  void set_abandoned(bool abandoned) {
    pools_.set_abandoned(abandoned);
    capture_pools_.set_abandoned(abandoned);
  }

 private:
  /// Calls `visit(pool)` for each pool, including the pools of captures.
  template <class Visit>
  void for_each_pool(Visit&& visit) const {
    pools_.for_each(visit);
    capture_pools_.for_each(visit);
  }
  [[nodiscard]] std::size_t limit_bytes(Backend& runtime) const {
    return options_.limit_bytes != 0
               ? options_.limit_bytes
               : static_cast<std::size_t>(static_cast<double>(runtime.memory_info().total_bytes) *
                                          options_.limit_fraction);
  }
  /// Returns the soft limit in bytes; 0 if the memory in use determines the limit.
  [[nodiscard]] std::size_t soft_limit_bytes(memory::Capacity const& capacity) const noexcept {
    bool const has_hard_limit = options_.limit_bytes != 0 || options_.limit_fraction < 1;
    return options_.soft_limit_bytes == 0 && has_hard_limit ? capacity.limit_bytes()
                                                            : options_.soft_limit_bytes;
  }
  /// Returns the options of the pool with this number, or of the corresponding pool of a capture.
  [[nodiscard]] memory::BlockPoolOptions pool_options(std::size_t pool) {
    auto const& limit = limits_[pool % limits_.size()];
    memory::BlockPoolOptions options{.capacity = std::make_shared<memory::Capacity>(limit),
                                     .growth_bytes = options_.max_growth_bytes,
                                     .soft_limit_bytes = soft_limit_bytes(*limit),
                                     .wait_for_frees = options_.wait_for_frees,
                                     .make_room = [this] { return make_room(false); },
                                     .on_out_of_memory = options_.on_out_of_memory,
                                     .history = history_};
    if (limits_.size() == 1) {
      options.account = [this] { return memory::MemoryAccount{statistics(), use_by_scope()}; };
    }
    return options;
  }
  /// Releases the memory of destroyed captures and, if the allocation is for a capture or all pools
  /// have one common limit, also the free memory of the pools. Returns Room::later if more can be
  /// released later: when the last launch of a capture completes or, if the pools release memory,
  /// when the device has finished with their free memory.
  memory::Room make_room(bool for_capture) {
    bool const from_pools = for_capture || options_.mode == PoolMode::private_pools_one_limit;
    auto const before = all_reserved_bytes();
    capture_pools_.sweep();
    if (from_pools) {
      return_cached_memory();
    }
    if (all_reserved_bytes() < before) {
      return memory::Room::made;
    }
    return capture_pools_.has_retired() || (from_pools && pools_.have_pending())
               ? memory::Room::later
               : memory::Room::none;
  }
  [[nodiscard]] std::size_t all_reserved_bytes() const {
    std::size_t total = 0;
    for (auto const& limit : limits_) {
      total += limit->reserved_bytes();
    }
    return total;
  }

  AllocatorOptions options_;
  std::shared_ptr<StreamContext> context_;
  std::shared_ptr<memory::MemoryHistory> history_;
  std::vector<std::shared_ptr<memory::Capacity>>
      limits_;  ///< the one limit of all pools, or one limit per pool
  memory::Pools pools_;
  memory::CapturePools capture_pools_;
  std::mutex recent_mutex_;
  std::chrono::steady_clock::time_point recent_since_ = std::chrono::steady_clock::now();
};

/// Allocates pinned host memory for copies to and from the device. A block is reused only once the
/// host knows that its copies are complete, so the host may write the block at once. Thread-safe.
class PinnedAllocator {
 public:
  PinnedAllocator(std::shared_ptr<StreamContext> const& context, AllocatorOptions const& options)
      : tracker_(context->tracker),
        keep_bytes_(options.pinned_keep_bytes),
        limit_(std::make_shared<memory::Capacity>(options.pinned_limit_bytes != 0
                                                      ? options.pinned_limit_bytes
                                                      : std::numeric_limits<std::size_t>::max())) {
    auto const count = options.pinned_mode == PinnedMode::shared
                           ? std::size_t{1}
                           : std::size_t(options.private_pools);
    for (std::size_t i = 0; i < count; ++i) {
      pools_.add(context,
                 memory::Space::pinned,
                 {.capacity = std::make_shared<memory::Capacity>(limit_),
                  .growth_bytes = options.max_growth_bytes,
                  .keep_bytes = options.pinned_keep_bytes / count,
                  .wait_for_frees = options.wait_for_frees,
                  .make_room = [this] { return make_room(); },
                  .on_out_of_memory = options.on_out_of_memory});
    }
    pools_.for_each([&](memory::BlockPool& pool) {
      idle_.emplace_back(pool, options.pinned_keep_bytes / count, options.max_growth_bytes);
    });
  }

  /// Returns a block of at least `bytes` for the host and for copies on `stream`. The contents are
  /// undefined. Throws OutOfMemory.
  [[nodiscard]] memory::BlockRef allocate(std::size_t bytes,
                                          StreamSlot& stream,
                                          std::shared_ptr<DeviceState> const& device) {
    return pools_.of(stream).allocate(bytes, stream, device);
  }
  /// Returns the statistics of all pools of pinned memory. Without a limit, `limit_bytes` is the
  /// largest std::size_t.
  [[nodiscard]] MemoryStatistics statistics() const {
    auto total = pools_.statistics();
    total.reserved_bytes = limit_->reserved_bytes();
    total.peak_reserved_bytes = limit_->peak_reserved_bytes();
    total.limit_bytes = limit_->limit_bytes();
    total.cache_limit_bytes = keep_bytes_;
    return total;
  }
  /// Releases free memory whose copies are complete to the runtime, until each pool reserves no
  /// more than `bytes`. Blocks briefly.
  void return_cached_memory(std::size_t bytes = 0) { pools_.return_cached_memory(bytes); }
  /// Releases pinned memory that has long been unused, beyond `pinned_keep_bytes` and a growth
  /// step. Called after the host has waited for the device. Does not block.
  void release_unneeded() {
    for (auto& idle : idle_) {
      idle.look([this] { return is_device_idle(); });
    }
  }
  void set_abandoned(bool abandoned) { pools_.set_abandoned(abandoned); }

 private:
  /// Queries the runtime whether the work on all streams is complete.
  [[nodiscard]] bool is_device_idle() const {
    auto const newest = tracker_->newest_positions();
    return std::all_of(newest.begin(), newest.end(), [this](order::Position position) {
      return tracker_->is_idle(tracker_->slot(position.stream));
    });
  }
  /// Releases the free memory of all pools to the runtime, for an allocation for which the limit
  /// has no room.
  memory::Room make_room() {
    auto const before = limit_->reserved_bytes();
    return_cached_memory();
    if (limit_->reserved_bytes() < before) {
      return memory::Room::made;
    }
    return pools_.have_pending() ? memory::Room::later : memory::Room::none;
  }

  std::shared_ptr<DependencyTracker> tracker_;
  std::size_t keep_bytes_;
  std::shared_ptr<memory::Capacity> limit_;  ///< the limit on all pools together
  memory::Pools pools_;
  std::deque<memory::IdleCache> idle_;  ///< one per pool, in a deque because they cannot move
};

}  // namespace msstream::detail
