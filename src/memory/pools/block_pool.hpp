// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"
#include "memory/blocks/block.hpp"
#include "memory/blocks/block_uses.hpp"
#include "memory/blocks/size_class.hpp"
#include "memory/large/block_source.hpp"
#include "memory/large/large_blocks.hpp"
#include "memory/large/reuse_rules.hpp"
#include "memory/pools/block_pool_options.hpp"
#include "memory/reports/memory_history.hpp"
#include "memory/reports/memory_use.hpp"
#include "memory/reports/out_of_memory_error.hpp"
#include "memory/small/rivalry.hpp"
#include "memory/small/slabs.hpp"
#include "memory/small/stream_caches.hpp"
#include "stream/stream_context.hpp"

#include <msstream/base/error.hpp>
#include <msstream/memory/statistics.hpp>
#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream::memory {

/// A pool of device or pinned memory for all streams of a device.
///
/// Free small blocks lie in the StreamCache of the stream that allocated them, each with a lock of
/// its own; they are cut from slabs. LargeBlocks provides slabs and larger blocks. docs/memory.md
/// has the order in which an allocation searches for memory. The host waits only for freed memory
/// in use on the device, if there is no other, and in calls of the runtime that take or move
/// memory. Thread-safe.
class BlockPool {
 public:
  using DeviceOwner = std::shared_ptr<detail::DeviceState>;

  BlockPool(std::shared_ptr<detail::StreamContext> context, Space space, BlockPoolOptions options)
      : home_(context->home),
        tracker_(context->tracker),
        is_observed_(context->runtime->traits.observes),
        space_(space),
        growth_bytes_(options.growth_bytes),
        wait_for_frees_(options.wait_for_frees),
        has_frees_to_wait_for_(options.has_frees_to_wait_for),
        make_room_(std::move(options.make_room)),
        on_out_of_memory_(std::move(options.on_out_of_memory)),
        account_(std::move(options.account)),
        history_(options.history),
        keep_bytes_(options.keep_bytes),
        rules_(tracker_, space),
        large_(std::move(context),
               space,
               std::move(options.capacity),
               options.growth_bytes,
               options.soft_limit_bytes,
               caches_,
               std::move(options.history),
               options.keep_bytes) {}
  BlockPool(BlockPool const&) = delete;
  BlockPool& operator=(BlockPool const&) = delete;
  /// Runs when all blocks are back: each block in use keeps its device alive, and with it the pool.
  ~BlockPool() {
    return_slabs([] { return InHand(); });
  }

  /// Returns a block of at least `bytes` for first use on `stream`; its contents are undefined.
  /// Throws OutOfMemory.
  [[nodiscard]] BlockRef allocate(std::size_t bytes,
                                  detail::StreamSlot& stream,
                                  DeviceOwner const& device) {
    auto& cache = caches_.of(stream.index);
    bool waits = false;
    Block* block = bytes <= Slabs::kMostBytes
                       ? own_ready(SizeClass::of(bytes).index, stream, cache, device)
                       : nullptr;
    if (block == nullptr) {
      block = found_or_made(bytes, stream);
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
      source().runtime().memory_taken(block->data, block->bytes);
    }
    return reference;
  }

  void give_back(Block* block) noexcept {
    if (home_.is_left()) [[unlikely]] {
      detail::HomeProcess::keep(*block->device);
      return;
    }
    if (is_observed_) [[unlikely]] {
      source().runtime().memory_returned(block->data, block->bytes);
    }
    if (history_ != nullptr) [[unlikely]] {
      history_->note(event(MemorySnapshot::Event::Kind::give_back, *block));
    }
    DeviceOwner device;  // may be the last owner of this pool, so released at the end
    try {
      if (block->immutable.load(std::memory_order_relaxed)) {
        block->immutable.store(false, std::memory_order_relaxed);
        note_untracked_reads(*block);
      }
      bool const is_large = block->size_class == SizeClass::kNone;
      mark_point_of_return(*block);
      device = caches_.of(block->home).end_use(block);
      if (is_large) {
        source().put(block);
      }
    } catch (std::bad_alloc const&) {  // NOLINT(bugprone-empty-catch): block is lost
      // If the host has no memory to note the return, the block is lost until its source frees it.
    }
  }

  void add_to(MemorySnapshot& snapshot) const {
    caches_.for_each([&](StreamCache const& cache, order::StreamIndex index) {
      auto const name = tracker_->identity_of(index).name;
      cache.for_each_in_use([&](Block const& block) {
        snapshot.ranges.push_back(range(block, MemorySnapshot::Range::State::in_use, name));
      });
      cache.for_each_cached([&](Block const& block) {
        snapshot.ranges.push_back(range(block, MemorySnapshot::Range::State::cached, name));
      });
    });
    source().for_each_free([&](Block const* block) {
      snapshot.ranges.push_back(range(*block, MemorySnapshot::Range::State::free, {}));
    });
  }
  /// Returns all blocks in use. The caller must keep each of them alive during the call.
  [[nodiscard]] std::vector<BlockRef> blocks_in_use() const {
    std::vector<BlockRef> blocks;
    caches_.for_each([&](StreamCache const& cache) {
      cache.for_each_in_use([&](Block& block) { blocks.push_back(BlockRef::share(block)); });
    });
    return blocks;
  }
  /// Sets whether the device is destroyed with the last block in use.
  void set_abandoned(bool abandoned) { caches_.set_abandoned(abandoned); }

  /// Returns the memory in use by name scope and stream, the largest first.
  [[nodiscard]] std::vector<ScopeMemory> use_by_scope() const {
    MemoryUseByScope use;
    add_use(use);
    return std::move(use).sorted();
  }
  void add_use(MemoryUseByScope& use) const {
    caches_.for_each([&](StreamCache const& cache, order::StreamIndex index) {
      auto const name = tracker_->identity_of(index).name;
      cache.for_each_in_use([&](Block const& block) {
        use.add(block.scope != nullptr ? *block.scope : std::string(), name, block.bytes);
      });
    });
  }
  void add_use(MemoryUseByStream& use) const {
    caches_.for_each([&](StreamCache const& cache, order::StreamIndex index) {
      auto const account = cache.account();
      use.add(index, tracker_->identity_of(index).name, account.counts, account.live_bytes);
    });
  }

  /// Returns the peak of memory in use since the last call.
  [[nodiscard]] std::size_t take_recent_peak() noexcept {
    return caches_.live().take_recent_peak();
  }
  [[nodiscard]] MemoryStatistics statistics() const {
    auto const& capacity = source().capacity();
    StreamCache::Account total;
    caches_.for_each([&](StreamCache const& cache) {
      auto const account = cache.account();
      total.counts += account.counts;
      total.live_bytes += account.live_bytes;
      total.peak_live_bytes = std::max(total.peak_live_bytes, account.peak_live_bytes);
    });
    return {total.counts,
            total.live_bytes,
            std::max({total.peak_live_bytes, total.live_bytes, caches_.live().peak()}),
            capacity.reserved_bytes(),
            capacity.peak_reserved_bytes(),
            capacity.limit_bytes(),
            source().growths(),
            keep_bytes_};
  }

  [[nodiscard]] std::size_t reserved_bytes() const noexcept {
    return source().capacity().reserved_bytes();
  }
  [[nodiscard]] std::size_t live_bytes() const noexcept { return caches_.live().now(); }
  /// Returns the free bytes in large blocks whose uses are known to be complete. Asks no runtime.
  [[nodiscard]] std::size_t idle_bytes() const { return large_.idle_bytes(); }
  /// Returns the free bytes in large blocks whose uses are not known to be complete.
  [[nodiscard]] std::size_t pending_bytes() const {
    std::lock_guard const guard(hands_);
    return large_.pending_bytes();
  }
  /// Releases free memory whose last uses are complete to the runtime, until no more than `bytes`
  /// are reserved. Blocks briefly.
  void return_cached_memory(std::size_t bytes = 0) {
    return_slabs([this] { return InHand(hands_); });
    large_.return_to_runtime(bytes);
  }

 private:
  /// A shared lock on `hands_`, held while a thread cuts or joins free memory, which other threads
  /// then cannot find.
  using InHand = std::shared_lock<std::shared_mutex>;

  static constexpr std::size_t kLargerClassesTried = 2 * SizeClass::kStepsPerDoubling;
  static constexpr std::chrono::microseconds kBetweenLooks{20};
  static constexpr int kTriesOfRoomMade = 64;

  /// Notes all work issued so far as reads of a frozen block, whose own reads are not tracked.
  void note_untracked_reads(Block& block) {
    if (detail::works(detail::Mechanism::reuse_of_frozen)) {
      for (auto const& newest : tracker_->newest_positions()) {
        block.record.log.note_read(newest);
      }
    }
  }
  /// If fresh memory is scarce, makes the streams that used the block record an event now, so that
  /// the next owner, which is likely to wait, does not wait for their later work.
  void mark_point_of_return(Block const& block) noexcept {
    if (space_ == Space::device && !block.record.log.empty() && large_.is_scarce()) {
      for_each_use(block, [this](order::Position use) { tracker_->want_event(use); });
    }
  }
  /// Returns a free block of the class that needs no wait. In device memory, the stream follows its
  /// uses, or they are known complete; in pinned memory, they are known complete.
  Block* reusable(std::size_t size_class, detail::StreamSlot& stream) {
    auto const over = [this](auto const& block) {
      return rules_.is_known_to_be_over(block) ||
             (space_ == Space::pinned && !detail::works(detail::Mechanism::pinned_reuse));
    };
    auto const followed = [&](auto const& block) { return rules_.is_followed(block, stream); };
    auto& rivalry = caches_.of(stream.index).rivalry();
    rivalry.note_search();
    Block* const found = caches_.search(stream.index, [&](auto& cache) {
      return space_ == Space::pinned ? cache.take_over(size_class, over)
                                     : cache.take_ready(size_class, followed, over);
    });
    if (found != nullptr && found->home != stream.index) {
      rivalry.note_taken_from(caches_.of(found->home).rivalry());
    }
    return found;
  }
  /// Like reusable(), but first asks the runtime about the oldest blocks of the class, which are
  /// the likeliest to be complete. Asks without a lock.
  Block* reusable_when_asked(std::size_t size_class, detail::StreamSlot& stream) {
    std::size_t const looks = space_ == Space::device ? 1 : StreamCache::kLooks;
    bool is_over = false;
    for (std::size_t place = 0; place < looks && !is_over; ++place) {
      caches_.for_each([&](StreamCache const& cache) {
        auto const uses = is_over ? std::nullopt : cache.uses_of(size_class, place);
        is_over = is_over || (uses.has_value() &&
                              std::all_of(uses->begin(), uses->end(), [this](order::Position use) {
                                return tracker_->is_complete(use);
                              }));
      });
    }
    return is_over ? reusable(size_class, stream) : nullptr;
  }
  /// Takes the oldest free block of the class, or of a larger one up to `last`; own cache first.
  Block* any_free(std::size_t size_class, std::size_t last, detail::StreamSlot& stream) {
    last = std::min(last, SizeClass::kSmallCount - 1);
    Block* found = nullptr;
    for (std::size_t index = size_class; index <= last && found == nullptr; ++index) {
      found = caches_.search(stream.index, [&](auto& cache) { return cache.take_oldest(index); });
    }
    return found;
  }
  /// Uses a device block from the stream's own cache that needs no wait. Null if there is none.
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
  /// Finds or makes a block. Before it throws OutOfMemory, it waits for freed memory that is still
  /// in use on the device, and calls `on_out_of_memory_`.
  Block* found_or_made(std::size_t bytes, detail::StreamSlot& stream) {
    bool const can_be = bytes <= std::min(source().capacity().limit_bytes(), SizeClass::kMostBytes);
    for (;;) {
      if (can_be) {
        if (auto* const block = find_or_make(bytes, stream)) {
          return block;
        }
        if (auto* const block = find_with_patience(bytes, stream)) {
          return block;
        }
      }
      auto const error = out_of_memory(bytes);
      if (!can_be || !on_out_of_memory_ || !on_out_of_memory_(error)) {
        if (history_ != nullptr) {
          history_->note(
              {0, MemorySnapshot::Event::Kind::refuse, 0, bytes, stream.index, NameScope::kept()});
        }
        throw error;
      }
    }
  }
  Block* find_or_make(std::size_t bytes, detail::StreamSlot& stream) {
    return find_or_make(bytes, stream, [this] { return InHand(hands_); });
  }
  template <class Hold>
  Block* find_or_make(std::size_t bytes, detail::StreamSlot& stream, Hold const& hold) {
    return bytes <= Slabs::kMostBytes ? small(SizeClass::of(bytes), stream, hold)
                                      : large_.any(SizeBin::round_up(bytes), stream, hold, [&] {
                                          return return_slabs(hold);
                                        });
  }
  /// Tries again while no other thread holds free memory, as long as other pools may release some,
  /// the device still uses free memory, or there is enough that other threads take first. Stops
  /// after `wait_for_frees_`, because work may depend on the calling thread to go on.
  Block* find_with_patience(std::size_t bytes, detail::StreamSlot& stream) {
    auto const deadline = std::chrono::steady_clock::now() + wait_for_frees_;
    int tries_of_room_made = kTriesOfRoomMade;
    for (;;) {
      Room const room = make_room_ ? make_room_() : Room::none;
      bool has_hope = room != Room::none;
      {
        std::lock_guard const guard(hands_);
        if (auto* const block = find_or_make(bytes, stream, [] { return InHand(); })) {
          return block;
        }
        has_hope = has_hope || (has_frees_to_wait_for_ && large_.pending_bytes() != 0) ||
                   large_.has_pages_for(SizeBin::round_up(bytes));
      }
      if (room == Room::made && --tries_of_room_made > 0) {
        continue;  // retries at once, since the room was likely made for this request
      }
      if (!has_hope || std::chrono::steady_clock::now() >= deadline) {
        return nullptr;
      }
      std::this_thread::sleep_for(kBetweenLooks);
      tracker_->look_what_is_complete();
    }
  }
  template <class Hold>
  Block* small(SizeClass wanted, detail::StreamSlot& stream, Hold const& hold) {
    Block* block = nullptr;
    auto const cut = [&](auto&& obtain) {
      block = slabs_.cut(wanted);
      if (block == nullptr) {
        block = from_new_slab(wanted, hold, obtain);
      }
    };
    if (space_ == Space::device && caches_.of(stream.index).rivalry().take_too_few() &&
        part_for_rivals_.take(wanted.bytes, source().capacity().limit_bytes())) {
      cut([&](std::size_t bytes) {
        return large_.to_keep_for_oneself(bytes, wanted.bytes, stream);
      });
      if (block == nullptr) {
        part_for_rivals_.give_back(wanted.bytes);
      }
    }
    if (block == nullptr) {
      block = reusable(wanted.index, stream);
    }
    // Asking about device memory records an event, so fresh memory comes first.
    if (block == nullptr && space_ == Space::pinned) {
      block = reusable_when_asked(wanted.index, stream);
    }
    if (block == nullptr) {
      cut([&](std::size_t bytes) {
        return large_.to_keep_without_wait(bytes, wanted.bytes, stream);
      });
    }
    if (block == nullptr && space_ == Space::device) {
      block = reusable_when_asked(wanted.index, stream);
    }
    if (block == nullptr && space_ == Space::device) {
      block = any_free(wanted.index, wanted.index + kLargerClassesTried, stream);
    }
    if (block == nullptr) {
      block = from_new_slab(wanted, hold, [&](std::size_t bytes) {
        return large_.any_to_keep(
            bytes, stream, [this] { return return_slabs([] { return InHand(); }); });
      });
    }
    if (block == nullptr && space_ == Space::device) {
      block = any_free(wanted.index, SizeClass::kSmallCount - 1, stream);
    }
    return block;
  }
  /// Cuts a block from a new slab of the usual size or, if there is no memory for it, of `wanted`.
  template <class Hold, class Obtain>
  Block* from_new_slab(SizeClass wanted, Hold const& hold, Obtain&& obtain) {
    auto const usual = std::max(wanted.bytes, std::min(Slabs::kSlabBytes, growth_bytes_));
    InHand const in_hand = hold();
    Block* slab = obtain(SizeBin::round_up(usual));
    if (slab == nullptr && usual > wanted.bytes) {
      slab = obtain(SizeBin::round_up(wanted.bytes));
    }
    if (slab == nullptr) {
      return nullptr;
    }
    return slabs_.cut_from(
        slab,
        wanted,
        [this](Block* spare) { caches_.of(0).put(spare); },
        [this](Block* unneeded) { source().put(unneeded); });
  }

  template <class Hold>
  bool return_slabs(Hold const& hold) {
    InHand const in_hand = hold();
    bool const any = slabs_.return_free(
        [this](Block* block) {
          bool taken = false;
          caches_.for_each([&](StreamCache& cache) { taken = taken || cache.take_this(block); });
          return taken;
        },
        [this](Block* block) { caches_.of(block->home).put(block); },
        [this](Block* slab) { source().put(slab); });
    if (any) {
      part_for_rivals_.give_back_all();
    }
    return any;
  }
  [[nodiscard]] OutOfMemory out_of_memory(std::size_t bytes) const {
    auto all = account_ ? account_() : MemoryAccount{statistics(), use_by_scope()};
    return out_of_memory_error({space_ == Space::device ? "device" : "pinned",
                                bytes,
                                all.statistics,
                                source().largest_free_bytes(),
                                pending_bytes(),
                                std::move(all.uses)});
  }

  static MemorySnapshot::Event event(MemorySnapshot::Event::Kind kind, Block const& block) {
    return {0,
            kind,
            reinterpret_cast<std::uintptr_t>(block.data),
            block.bytes,
            block.home,
            block.scope};
  }
  static MemorySnapshot::Range range(Block const& block,
                                     MemorySnapshot::Range::State state,
                                     std::string const& stream) {
    return {reinterpret_cast<std::uintptr_t>(block.data),
            block.bytes,
            state,
            block.scope != nullptr ? *block.scope : std::string(),
            stream};
  }
  [[nodiscard]] BlockSource& source() noexcept { return large_.source(); }
  [[nodiscard]] BlockSource const& source() const noexcept { return large_.source(); }

  StreamCaches caches_;
  detail::HomeProcess home_;
  std::shared_ptr<detail::DependencyTracker> tracker_;
  bool const is_observed_;  ///< whether the runtime is told of blocks taken and returned
  Space space_;
  std::size_t growth_bytes_;
  std::chrono::milliseconds wait_for_frees_;
  bool has_frees_to_wait_for_;
  std::function<Room()> make_room_;
  std::function<bool(OutOfMemory const&)> on_out_of_memory_;
  std::function<MemoryAccount()> account_;
  std::shared_ptr<MemoryHistory> history_;
  std::size_t keep_bytes_;
  ReuseRules rules_;
  LargeBlocks large_;
  Slabs slabs_;
  PartForRivals part_for_rivals_;
  mutable std::shared_mutex hands_;
};

}  // namespace msstream::memory
