// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/base/mechanism.hpp>
#include <msstream/memory/block.hpp>
#include <msstream/memory/block_source.hpp>
#include <msstream/memory/block_uses.hpp>
#include <msstream/memory/free_lists.hpp>
#include <msstream/memory/size_class.hpp>
#include <msstream/memory/statistics.hpp>
#include <msstream/runtime/observing.hpp>
#include <msstream/stream/stream_context.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace msstream::memory {

/// Device or pinned memory for all streams of a device.
///
/// Free blocks lie in one list a size class for each stream that allocated them, each stream's
/// lists under a lock of their own. An allocation takes, in this order: a block whose last uses the
/// stream already follows (device memory) or that the host knows to be over; fresh memory under the
/// limit; in device memory any free block, whose first write will wait on the device; after
/// returning cached memory to the runtime, fresh memory again. It waits on the host
/// only where the runtime does, when it takes memory back. Small blocks are cut from larger pieces
/// and stay cut. Thread-safe.
template <Runtime R>
class BlockPool {
 public:
  BlockPool(std::shared_ptr<StreamContext<R>> context, Space space, BlockSourceOptions options)
      : tracker_(context->tracker), space_(space), source_(std::move(context), space, options) {}
  BlockPool(BlockPool const&) = delete;
  BlockPool& operator=(BlockPool const&) = delete;
  /// All blocks are back: each block in use keeps its device, and with it the pool.
  ~BlockPool() {
    for (auto const& lists : lists_) {
      delete lists.load();
    }
  }

  /// A block of at least `bytes` for first use on `stream`; its contents are undefined. Throws
  /// OutOfMemory.
  [[nodiscard]] BlockRef<R> allocate(std::size_t bytes,
                                     StreamSlot<R>& stream,
                                     std::shared_ptr<DeviceState<R>> device) {
    if (bytes > std::min(source_.limit_bytes(), SizeClass::kMostBytes)) {
      throw out_of_memory(bytes);
    }
    auto const wanted = SizeClass::of(bytes);
    Block<R>* block = reusable(wanted.index, stream);
    if (block == nullptr) {
      block = fresh(wanted);
    }
    if (block == nullptr && space_ == Space::device) {
      block = any_free(wanted.index, stream);
    }
    if (block == nullptr) {
      return_cached_memory();
      block = fresh(wanted);
    }
    if (block == nullptr) {
      throw out_of_memory(bytes);
    }
    if (!works(Mechanism::reuse_follows_uses)) {
      block->record.log = {};
    }
    block->pool = this;
    block->home = stream.index;
    block->device = std::move(device);
    allocations_.fetch_add(1, std::memory_order_relaxed);
    raise_to(peak_live_, live_.fetch_add(block->bytes, std::memory_order_relaxed) + block->bytes);
    BlockRef<R> reference(block);
    observe::memory_taken(source_.runtime(), block->data, block->bytes);
    return reference;
  }

  void give_back(Block<R>* block) noexcept {
    auto const device =
        std::move(block->device);  // may be the last owner of this pool: goes at the end
    live_.fetch_sub(block->bytes, std::memory_order_relaxed);
    observe::memory_returned(source_.runtime(), block->data, block->bytes);
    try {
      if (block->immutable.exchange(false)) {
        note_untracked_reads(*block);
      }
      lists_of(block->home).put(block);
    } catch (std::bad_alloc const&) {  // NOLINT(bugprone-empty-catch): see below
      // The host has no memory to note it: nobody gets the block again, until its source frees it.
    }
  }

  [[nodiscard]] MemoryStatistics statistics() const {
    return {live_.load(),
            peak_live_.load(),
            source_.reserved_bytes(),
            source_.peak_reserved_bytes(),
            source_.limit_bytes(),
            allocations_.load(),
            source_.growths(),
            waiting_reuses_.load()};
  }

  /// Gives pieces of memory that are wholly free, and whose last uses are over, back to the
  /// runtime. Blocks briefly.
  void return_cached_memory() {
    source_.return_pieces(
        [this](Block<R>* block) {
          bool taken = false;
          for_each_lists([&](FreeLists<R>& lists) {
            taken = taken || lists.take_this(block, [this](auto const& free) {
              return is_over(free) || !works(Mechanism::release_after_uses);
            });
          });
          return taken;
        },
        [this](Block<R>* block) { lists_of(block->home).put(block); });
  }

 private:
  static constexpr std::size_t kLargerClassesTried = 2 * SizeClass::kStepsPerDoubling;

  FreeLists<R>& lists_of(order::StreamIndex stream) {
    auto* lists = lists_[stream].load(std::memory_order_acquire);
    if (lists == nullptr) {
      auto created = std::make_unique<FreeLists<R>>();
      if (lists_[stream].compare_exchange_strong(lists, created.get(), std::memory_order_acq_rel)) {
        lists = created.release();
        raise_to(lists_in_use_, std::size_t{stream} + 1);
      }
    }
    return *lists;
  }
  template <class Visit>
  void for_each_lists(Visit&& visit) {
    for (std::size_t i = 0; i < lists_in_use_.load(std::memory_order_acquire); ++i) {
      if (auto* const lists = lists_[i].load(std::memory_order_acquire)) {
        visit(*lists);
      }
    }
  }

  /// What has been issued so far may have read the block, which nobody noted.
  void note_untracked_reads(Block<R>& block) {
    if (works(Mechanism::reuse_of_frozen)) {
      for (auto const& newest : tracker_->newest_positions()) {
        block.record.log.note_read(newest);
      }
    }
  }
  [[nodiscard]] bool is_over(Block<R> const& block) {
    return all_uses(block, [this](order::Position use) { return tracker_->is_complete(use); });
  }
  /// Whether the next use on `stream` needs no wait on the device.
  [[nodiscard]] bool is_followed(Block<R> const& block, StreamSlot<R>& stream) {
    return all_uses(block, [&](order::Position use) { return tracker_->covers(stream, use); });
  }

  /// What `take(lists)` finds, in the stream's own lists first; null when there is nothing.
  template <class Take>
  Block<R>* search(StreamSlot<R>& stream, Take&& take) {
    auto& own = lists_of(stream.index);
    Block<R>* found = take(own);
    for_each_lists([&](FreeLists<R>& lists) {
      if (found == nullptr && &lists != &own) {
        found = take(lists);
      }
    });
    return found;
  }
  /// A free block of the class that needs no wait: on the device because the stream follows its
  /// uses, on the host because they are over.
  Block<R>* reusable(std::size_t size_class, StreamSlot<R>& stream) {
    if (space_ == Space::pinned) {
      auto const host_may_write = [&](auto const& block) {
        return is_over(block) || !works(Mechanism::pinned_reuse);
      };
      return search(stream,
                    [&](auto& lists) { return lists.take_over(size_class, host_may_write); });
    }
    return search(stream, [&](auto& lists) {
      return lists.take_ready(
          size_class,
          [&](auto const& block) { return is_followed(block, stream); },
          [&](auto const& block) { return is_over(block); });
    });
  }
  /// The oldest free block of the class or a somewhat larger one, the stream's own first.
  Block<R>* any_free(std::size_t size_class, StreamSlot<R>& stream) {
    std::size_t const last = std::min(size_class + kLargerClassesTried, SizeClass::kCount - 1);
    Block<R>* found = nullptr;
    for (std::size_t index = size_class; index <= last && found == nullptr; ++index) {
      found = search(stream, [&](auto& lists) { return lists.take_oldest(index); });
    }
    if (found != nullptr) {
      waiting_reuses_.fetch_add(1, std::memory_order_relaxed);
    }
    return found;
  }
  Block<R>* fresh(SizeClass wanted) {
    return source_.fresh(wanted, [this](Block<R>* spare) { lists_of(0).put(spare); });
  }

  [[nodiscard]] OutOfMemory out_of_memory(std::size_t bytes) const {
    auto const now = statistics();
    return OutOfMemory(bytes,
                       text(space_ == Space::device ? "device" : "pinned",
                            " memory: ",
                            bytes,
                            " bytes asked; ",
                            now.live_bytes,
                            " in use and ",
                            now.reserved_bytes - std::min(now.reserved_bytes, now.live_bytes),
                            " cached in other sizes, of ",
                            now.reserved_bytes,
                            " reserved under a limit of ",
                            now.limit_bytes));
  }

  static void raise_to(std::atomic<std::size_t>& peak, std::size_t value) noexcept {
    auto seen = peak.load(std::memory_order_relaxed);
    while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_acq_rel)) {
    }
  }

  std::shared_ptr<DependencyTracker<R>> tracker_;
  Space space_;
  BlockSource<R> source_;
  std::array<std::atomic<FreeLists<R>*>, DependencyTracker<R>::kMaxStreams> lists_{};
  std::atomic<std::size_t> lists_in_use_{0};
  std::atomic<std::size_t> live_{0};
  std::atomic<std::size_t> peak_live_{0};
  std::atomic<std::uint64_t> allocations_{0};
  std::atomic<std::uint64_t> waiting_reuses_{0};
};

}  // namespace msstream::memory
