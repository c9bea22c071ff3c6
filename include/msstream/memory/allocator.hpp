// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/env.hpp>
#include <msstream/memory/block_pool.hpp>
#include <msstream/memory/capture.hpp>
#include <msstream/memory/idle_cache.hpp>
#include <msstream/memory/pools.hpp>
#include <msstream/memory/private_pools.hpp>
#include <msstream/runtime/compiled_once.hpp>

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

namespace msstream {

/// Who shares device memory that is free. `private_pools`: each group has a pool and an equal part
/// of the limit. `private_pools_one_limit`: each group has a pool, and what all have reserved
/// together stays under the limit; memory that one caches goes back when another one needs it.
enum class PoolMode : std::uint8_t { shared, private_pools, private_pools_one_limit };

/// Who shares pinned memory that is free: all groups, or nobody, so that a group never waits for
/// the lock of another one, nor asks what became of its copies.
enum class PinnedMode : std::uint8_t { shared, per_group };

struct AllocatorOptions {
  /// Hard limit on reserved device memory; 0: by limit_fraction.
  std::size_t limit_bytes =
      static_cast<std::size_t>(env::integer("MSSTREAM_MEMORY_LIMIT_BYTES", 0, 0));
  /// The same as a part of what the device has, above 0 and up to 1.
  double limit_fraction =
      static_cast<double>(env::integer("MSSTREAM_MEMORY_LIMIT_PERCENT", 100, 1, 100)) / 100;
  /// Fresh memory is preferred to memory that has to be waited for while no more is reserved; 0:
  /// the hard limit where one is set, else 15 to 34% more than was in use at once.
  std::size_t soft_limit_bytes =
      static_cast<std::size_t>(env::integer("MSSTREAM_MEMORY_SOFT_LIMIT_BYTES", 0, 0));
  /// How much is taken from the runtime at a time, to be cut into small blocks.
  std::size_t max_growth_bytes = static_cast<std::size_t>(
      env::integer("MSSTREAM_MAX_GROWTH_BYTES", std::int64_t{8} << 20U, 1 << 16));

  PoolMode mode = env::choice<PoolMode>("MSSTREAM_MEMORY_POOLS",
                                        PoolMode::shared,
                                        {{"shared", PoolMode::shared},
                                         {"private", PoolMode::private_pools},
                                         {"private-one-limit", PoolMode::private_pools_one_limit}});
  /// How many pools there are when they are private: group i has number i modulo that, and the
  /// default group the first.
  int private_pools = static_cast<int>(env::integer("MSSTREAM_MEMORY_PRIVATE_POOLS", 8, 1, 4096));
  /// The same for pinned memory; its private pools are as many.
  PinnedMode pinned_mode =
      env::choice<PinnedMode>("MSSTREAM_PINNED_POOLS",
                              PinnedMode::shared,
                              {{"shared", PinnedMode::shared}, {"private", PinnedMode::per_group}});
  /// Hard limit on reserved pinned memory; 0: none.
  std::size_t pinned_limit_bytes =
      static_cast<std::size_t>(env::integer("MSSTREAM_PINNED_LIMIT_BYTES", 0, 0));
  /// How much pinned memory may lie free, with its copies over, when more is taken from the
  /// runtime: what exceeds that goes back first, which on some drivers waits for the device. So the
  /// pool never has more than was in use, by the program and by copies in flight, and that. What a
  /// peak has left goes back, too, after many host waits, while the device is idle.
  std::size_t pinned_keep_bytes = static_cast<std::size_t>(
      env::integer("MSSTREAM_PINNED_KEEP_BYTES", std::int64_t{64} << 20U, 0));

  /// What is free goes back to the runtime when the host has waited for the device and more than
  /// this is reserved.
  std::size_t keep_bytes = static_cast<std::size_t>(
      env::integer("MSSTREAM_MEMORY_KEEP_BYTES", std::numeric_limits<std::int64_t>::max(), 0));
  /// The same for what exceeds by a quarter the most that was in use for so long; 0: never.
  std::chrono::nanoseconds return_after =
      std::chrono::milliseconds(env::integer("MSSTREAM_MEMORY_RETURN_AFTER_MS", 0, 0));

  /// How long an allocation that finds no memory waits for memory that others have freed and the
  /// device still uses, before it fails.
  std::chrono::milliseconds wait_for_frees{env::integer("MSSTREAM_MEMORY_WAIT_MS", 1000, 0)};
  /// How many events a snapshot shows of the last that happened; 0 records none. Each costs a lock
  /// that all threads share.
  std::size_t history_events =
      static_cast<std::size_t>(env::integer("MSSTREAM_MEMORY_HISTORY", 0, 0, 1 << 28));

  /// Called before OutOfMemory is thrown, on the allocating thread, with what would be thrown.
  /// True: something was let go, try again.
  std::function<bool(OutOfMemory const&)> on_out_of_memory = {};
};

/// Device memory for all streams of a device, reused across streams without races: see
/// memory::BlockPool. Thread-safe.
template <Runtime R = DefaultRuntime>
class StreamAwareAllocator {
 public:
  StreamAwareAllocator(std::shared_ptr<StreamContext<R>> const& context, AllocatorOptions options)
      : options_(std::move(options)), context_(context), captures_(context->tracker) {
    require(options_.limit_fraction > 0 && options_.limit_fraction <= 1,
            "AllocatorOptions::limit_fraction is ",
            options_.limit_fraction,
            "; expected more than 0 and at most 1");
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

  /// A block of at least `bytes` for first use on `stream`; its contents are undefined. Throws
  /// OutOfMemory.
  [[nodiscard]] memory::BlockRef<R> allocate(std::size_t bytes,
                                             StreamSlot<R>& stream,
                                             std::shared_ptr<DeviceState<R>> const& device) {
    if constexpr (CapturingRuntime<R>) {
      if (stream.capture.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
        return memory::Capture<R>::of_this_thread(*context_).pool_of(stream).allocate(
            bytes, stream, device);
      }
    }
    return pools_.of(stream).allocate(bytes, stream, device);
  }

  /// Pools for one capture, or several that share them, under the limits of all others; they take
  /// at most `growth_bytes` at a time. While they have an owner nothing goes back from them; then
  /// all does, at a call of sweep() or when somebody finds no memory.
  [[nodiscard]] std::shared_ptr<memory::Pools<R>> make_private_pools(
      std::size_t growth_bytes = std::numeric_limits<std::size_t>::max()) {
    auto pools = make_at_home<memory::Pools<R>>(context_->home);
    for (std::size_t i = 0; i < pools_.count(); ++i) {
      auto options = pool_options(i);
      // There may be many, which are small, and whose pages stay where they are.
      options.capacity = std::make_shared<memory::Capacity>(limits_[i % limits_.size()],
                                                            pools_.count() == 1 ? 2 : 1);
      options.growth_bytes = std::min(options.growth_bytes, growth_bytes);
      options.soft_limit_bytes = options_.soft_limit_bytes;
      options.has_frees_to_wait_for = false;
      options.make_room = [this] { return make_room(true); };
      pools->add(context_, memory::Space::device, std::move(options));
    }
    captures_.add(pools);
    return pools;
  }
  /// Captures that are not launched any more, and their pools.
  [[nodiscard]] memory::PrivatePools<R>& captures() noexcept { return captures_; }

  /// What captures have free, for their graphs, counts as cached.
  [[nodiscard]] MemoryStatistics statistics() const {
    MemoryStatistics total;
    for_each_pool([&](memory::BlockPool<R> const& pool) { total += pool.statistics(); });
    static_cast<AllocationCounts&>(total) += captures_.counts_of_gone();
    total.reserved_bytes = total.peak_reserved_bytes = total.limit_bytes = 0;
    total.cache_limit_bytes = options_.keep_bytes;
    for (auto const& limit : limits_) {
      total.reserved_bytes += limit->reserved_bytes();
      total.peak_reserved_bytes += limit->peak_reserved_bytes();
      total.limit_bytes += limit->limit_bytes();
    }
    // The peaks of several pools may have been at different times.
    total.peak_live_bytes = std::min(total.peak_live_bytes, total.peak_reserved_bytes);
    return total;
  }
  /// Who has how much in use, the largest first.
  [[nodiscard]] std::vector<ScopeMemory> use_by_scope() const {
    memory::MemoryUseByScope use;
    for_each_pool([&](memory::BlockPool<R> const& pool) { pool.add_use(use); });
    return std::move(use).sorted();
  }
  /// What each stream has in use, and how often it waited for memory; the oldest first. A stream
  /// that took the place of one that is gone goes on with its counts.
  [[nodiscard]] std::vector<StreamMemory> use_by_stream() const {
    memory::MemoryUseByStream use;
    for_each_pool([&](memory::BlockPool<R> const& pool) { pool.add_use(use); });
    return std::move(use).sorted();
  }

  /// What there is, range by range. Others may go on meanwhile: each range was there at some time.
  [[nodiscard]] MemorySnapshot snapshot() const {
    MemorySnapshot snapshot{statistics(), {}, {}, {}, use_by_stream()};
    for_each_pool([&](memory::BlockPool<R> const& pool) { pool.add_to(snapshot); });
    std::sort(snapshot.ranges.begin(),
              snapshot.ranges.end(),
              [](MemoryRange const& a, MemoryRange const& b) { return a.address < b.address; });
    if (history_ != nullptr) {
      snapshot.events = history_->events();
      snapshot.streams = context_->tracker->stream_names();
    }
    return snapshot;
  }

  /// Gives memory that is free, and whose last uses are over, back to the runtime, until no more
  /// than `bytes` are reserved by each of the pools. Blocks briefly.
  void return_cached_memory(std::size_t bytes = 0) { pools_.return_cached_memory(bytes); }
  /// The host has waited for the device: a good moment to give memory back, as the options say.
  void release_unneeded() {
    captures_.sweep();
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
      pools_.for_each([](memory::BlockPool<R>& pool) {
        auto const recent = pool.take_recent_peak();
        pool.return_cached_memory(recent + recent / 4);
      });
    }
  }
  void set_abandoned(bool abandoned) {
    pools_.set_abandoned(abandoned);
    captures_.set_abandoned(abandoned);
  }

 private:
  /// Those of captures, too.
  template <class Visit>
  void for_each_pool(Visit&& visit) const {
    pools_.for_each(visit);
    captures_.for_each(visit);
  }
  [[nodiscard]] std::size_t limit_bytes(R& runtime) const {
    return options_.limit_bytes != 0
               ? options_.limit_bytes
               : static_cast<std::size_t>(static_cast<double>(runtime.memory_info().total_bytes) *
                                          options_.limit_fraction);
  }
  /// 0: by what is in use.
  [[nodiscard]] std::size_t soft_limit_bytes(memory::Capacity const& capacity) const noexcept {
    bool const has_hard_limit = options_.limit_bytes != 0 || options_.limit_fraction < 1;
    return options_.soft_limit_bytes == 0 && has_hard_limit ? capacity.limit_bytes()
                                                            : options_.soft_limit_bytes;
  }
  /// For a pool, or for that of a capture which stands for it.
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
  /// Lets captures that are gone give back what they have and, for a capture or under one limit,
  /// the pools what they have free. More is to come when the last launch of a capture is over or,
  /// of pools that give, what is free and in use on the device.
  memory::Room make_room(bool for_capture) {
    bool const from_pools = for_capture || options_.mode == PoolMode::private_pools_one_limit;
    auto const before = all_reserved_bytes();
    captures_.sweep();
    if (from_pools) {
      return_cached_memory();
    }
    if (all_reserved_bytes() < before) {
      return memory::Room::made;
    }
    return captures_.has_retired() || (from_pools && pools_.have_pending()) ? memory::Room::later
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
  std::shared_ptr<StreamContext<R>> context_;
  std::shared_ptr<memory::MemoryHistory> history_;
  std::vector<std::shared_ptr<memory::Capacity>> limits_;  ///< of all pools, or of each
  memory::Pools<R> pools_;
  memory::PrivatePools<R> captures_;
  std::mutex recent_mutex_;
  std::chrono::steady_clock::time_point recent_since_ = std::chrono::steady_clock::now();
};

/// Pinned host memory, which copies to and from the device need; a block is handed out again only
/// once the host knows that its copies are over, so the host may write it at once. Thread-safe.
template <Runtime R = DefaultRuntime>
class PinnedAllocator {
 public:
  PinnedAllocator(std::shared_ptr<StreamContext<R>> const& context, AllocatorOptions const& options)
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
    pools_.for_each([&](memory::BlockPool<R>& pool) {
      idle_.emplace_back(pool, options.pinned_keep_bytes / count, options.max_growth_bytes);
    });
  }

  /// A block of at least `bytes` for the host and for copies on `stream`; its contents are
  /// undefined. Throws OutOfMemory.
  [[nodiscard]] memory::BlockRef<R> allocate(std::size_t bytes,
                                             StreamSlot<R>& stream,
                                             std::shared_ptr<DeviceState<R>> const& device) {
    return pools_.of(stream).allocate(bytes, stream, device);
  }
  /// Where there is no limit, limit_bytes is the largest number.
  [[nodiscard]] MemoryStatistics statistics() const {
    auto total = pools_.statistics();
    total.reserved_bytes = limit_->reserved_bytes();
    total.peak_reserved_bytes = limit_->peak_reserved_bytes();
    total.limit_bytes = limit_->limit_bytes();
    total.cache_limit_bytes = keep_bytes_;
    return total;
  }
  /// Gives memory that is free, and whose copies are over, back to the runtime, until each pool has
  /// no more than `bytes`. Blocks briefly.
  void return_cached_memory(std::size_t bytes = 0) { pools_.return_cached_memory(bytes); }
  /// The host has waited for the device: what nobody has needed for long goes back, above what may
  /// be kept. Waits for nothing.
  void release_unneeded() {
    for (auto& idle : idle_) {
      idle.look([this] { return is_device_idle(); });
    }
  }
  void set_abandoned(bool abandoned) { pools_.set_abandoned(abandoned); }

 private:
  /// Asks the runtime.
  [[nodiscard]] bool is_device_idle() const {
    auto const newest = tracker_->newest_positions();
    return std::all_of(newest.begin(), newest.end(), [this](order::Position position) {
      return tracker_->is_idle(tracker_->slot(position.stream));
    });
  }
  /// Of what the pools have free, where a limit leaves no more.
  memory::Room make_room() {
    auto const before = limit_->reserved_bytes();
    return_cached_memory();
    if (limit_->reserved_bytes() < before) {
      return memory::Room::made;
    }
    return pools_.have_pending() ? memory::Room::later : memory::Room::none;
  }

  std::shared_ptr<DependencyTracker<R>> tracker_;
  std::size_t keep_bytes_;
  std::shared_ptr<memory::Capacity> limit_;  ///< of all pools
  memory::Pools<R> pools_;
  std::deque<memory::IdleCache<R>> idle_;  ///< one a pool; they do not move
};

MSSTREAM_COMPILED_ONCE(class StreamAwareAllocator<DefaultRuntime>);
MSSTREAM_COMPILED_ONCE(class PinnedAllocator<DefaultRuntime>);

}  // namespace msstream
