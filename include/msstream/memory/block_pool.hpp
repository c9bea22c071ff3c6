// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/base/spin_lock.hpp>
#include <msstream/memory/block.hpp>
#include <msstream/memory/size_class.hpp>
#include <msstream/memory/statistics.hpp>
#include <msstream/stream/stream_context.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::memory {

enum class Space : std::uint8_t { device, pinned };

struct BlockPoolOptions {
  std::size_t limit_bytes;       ///< never reserves more
  std::size_t max_growth_bytes;  ///< takes at most this at a time from the runtime, one larger
                                 ///< block excepted
};

/// Device or pinned memory for all streams of a device.
///
/// Free blocks lie in one list a size class for each stream that allocated them, each stream's
/// lists under a lock of their own. An allocation takes, in this order: a block whose last uses the
/// stream already follows (device memory) or that the host knows to be over; fresh memory under the
/// limit; in device memory any free block, whose first write will wait on the device; after
/// returning cached memory to the runtime, fresh memory again. It never waits on the host. Small
/// blocks are cut from larger pieces and stay cut. Thread-safe.
template <Runtime R>
class BlockPool {
 public:
  BlockPool(std::shared_ptr<StreamContext<R>> context, Space space, BlockPoolOptions options)
      : context_(std::move(context)), space_(space), options_(options) {}
  BlockPool(BlockPool const&) = delete;
  BlockPool& operator=(BlockPool const&) = delete;
  /// All blocks are back: each block in use keeps its device, and with it the pool. Waits for the
  /// last uses.
  ~BlockPool() {
    for (auto const& block : blocks_) {
      for_each_use(*block, [&](order::Position use) {
        try {
          context_->tracker->synchronize(use);
        } catch (...) {  // NOLINT(bugprone-empty-catch): failed work is over
        }
      });
    }
    for (auto const& piece : pieces_) {
      release_to_runtime(piece.memory, piece.bytes);
    }
    for (auto const& list : lists_) {
      delete list.load();
    }
  }

  /// A block of at least `bytes` for first use on `stream`; its contents are undefined. Throws
  /// OutOfMemory.
  [[nodiscard]] BlockRef<R> allocate(std::size_t bytes,
                                     StreamSlot<R>& stream,
                                     std::shared_ptr<DeviceState<R>> device) {
    if (bytes > std::min(options_.limit_bytes, SizeClass::kMostBytes)) {
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
    block->home = stream.index;
    block->device = std::move(device);
    allocations_.fetch_add(1, std::memory_order_relaxed);
    raise_to(peak_live_, live_.fetch_add(block->bytes, std::memory_order_relaxed) + block->bytes);
    return BlockRef<R>(block);
  }

  void give_back(Block<R>* block) noexcept {
    auto const device =
        std::move(block->device);  // may be the last owner of this pool: goes at the end
    if (std::exchange(block->immutable, false)) {
      note_untracked_reads(*block);
    }
    live_.fetch_sub(block->bytes, std::memory_order_relaxed);
    FreeLists& lists = lists_of(block->home);
    std::lock_guard const guard(lists.lock);
    lists.bins[block->size_class].push_back(block);
  }

  [[nodiscard]] MemoryStatistics statistics() const {
    return {live_.load(),
            peak_live_.load(),
            reserved_.load(),
            peak_reserved_.load(),
            options_.limit_bytes,
            allocations_.load(),
            growths_.load(),
            waiting_reuses_.load()};
  }

  /// Gives pieces of memory that are wholly free, and whose last uses are over, back to the
  /// runtime. Blocks briefly.
  void return_cached_memory() {
    std::lock_guard const growth(growth_mutex_);
    for (auto piece = pieces_.begin(); piece != pieces_.end();) {
      Block<R>* const block = piece->only_block;
      if (block != nullptr && take_from_lists(block)) {
        release_to_runtime(piece->memory, piece->bytes);
        reserved_.fetch_sub(piece->bytes);
        std::erase_if(blocks_, [&](auto const& owned) { return owned.get() == block; });
        piece = pieces_.erase(piece);
      } else {
        ++piece;
      }
    }
  }

 private:
  static constexpr std::size_t kLargestCutBytes = std::size_t{1} << 20U;
  static constexpr std::size_t kPieceBytes = std::size_t{8} << 20U;
  static constexpr std::size_t kLooksPerList = 8;
  static constexpr std::size_t kLargerClassesTried = 2 * SizeClass::kStepsPerDoubling;

  /// What the runtime gave in one call; `only_block` when it is one block.
  struct Piece {
    void* memory;
    std::size_t bytes;
    Block<R>* only_block;
  };
  struct FreeLists {
    SpinLock lock;
    std::array<std::vector<Block<R>*>, SizeClass::kCount> bins;  ///< newest last
  };

  FreeLists& lists_of(order::StreamIndex stream) {
    auto* lists = lists_[stream].load(std::memory_order_acquire);
    if (lists == nullptr) {
      auto created = std::make_unique<FreeLists>();
      if (lists_[stream].compare_exchange_strong(lists, created.get(), std::memory_order_acq_rel)) {
        lists = created.release();
        raise_to(lists_in_use_, std::size_t{stream} + 1);
      }
    }
    return *lists;
  }

  /// What has been issued so far may have read the block, which nobody noted.
  void note_untracked_reads(Block<R>& block) {
    for (auto const& newest : context_->tracker->newest_positions()) {
      block.record.log.note_read(newest);
    }
  }
  template <class Visit>
  static void for_each_use(Block<R> const& block, Visit&& visit) {
    for (auto const& write : block.record.log.writes()) {
      visit(write);
    }
    for (auto const& read : block.record.log.reads()) {
      visit(read);
    }
  }
  /// Whether the next use on `stream` needs no wait: on the device because it is ordered, on the
  /// host because it is over.
  [[nodiscard]] bool is_ready(Block<R> const& block, StreamSlot<R>& stream) {
    bool ready = true;
    for_each_use(block, [&](order::Position use) {
      ready = ready && (space_ == Space::device ? context_->tracker->covers(stream, use)
                                                : context_->tracker->is_complete(use));
    });
    return ready;
  }
  [[nodiscard]] bool is_over(Block<R> const& block) {
    bool over = true;
    for_each_use(block,
                 [&](order::Position use) { over = over && context_->tracker->is_complete(use); });
    return over;
  }

  /// A free block of the class that needs no wait, the stream's own first.
  Block<R>* reusable(std::size_t size_class, StreamSlot<R>& stream) {
    if (auto* const own = take_ready(lists_of(stream.index), size_class, stream)) {
      return own;
    }
    for (std::size_t i = 0; i < lists_in_use_.load(std::memory_order_acquire); ++i) {
      auto* const lists = lists_[i].load(std::memory_order_acquire);
      if (lists != nullptr && i != stream.index) {
        if (auto* const other = take_ready(*lists, size_class, stream)) {
          return other;
        }
      }
    }
    return nullptr;
  }
  /// Looks at the newest blocks, which are likely in cache, and asks the runtime about the oldest,
  /// which is likely over.
  Block<R>* take_ready(FreeLists& lists, std::size_t size_class, StreamSlot<R>& stream) {
    std::lock_guard const guard(lists.lock);
    auto& bin = lists.bins[size_class];
    std::size_t const looks = std::min(bin.size(), kLooksPerList);
    for (std::size_t look = 0; look < looks; ++look) {
      auto const place = bin.end() - 1 - static_cast<std::ptrdiff_t>(look);
      if (is_ready(**place, stream)) {
        return take(bin, place);
      }
    }
    if (!bin.empty() && is_over(*bin.front())) {
      return take(bin, bin.begin());
    }
    return nullptr;
  }
  static Block<R>* take(std::vector<Block<R>*>& bin,
                        typename std::vector<Block<R>*>::iterator place) {
    Block<R>* const block = *place;
    bin.erase(place);
    return block;
  }

  /// The oldest free block of the class or a somewhat larger one, from whichever stream.
  Block<R>* any_free(std::size_t size_class, StreamSlot<R>& stream) {
    std::size_t const last = std::min(size_class + kLargerClassesTried, SizeClass::kCount - 1);
    for (std::size_t index = size_class; index <= last; ++index) {
      if (auto* const own = take_oldest(lists_of(stream.index), index)) {
        return own;
      }
      for (std::size_t i = 0; i < lists_in_use_.load(std::memory_order_acquire); ++i) {
        if (auto* const lists = lists_[i].load(std::memory_order_acquire)) {
          if (auto* const other = take_oldest(*lists, index)) {
            return other;
          }
        }
      }
    }
    return nullptr;
  }
  Block<R>* take_oldest(FreeLists& lists, std::size_t size_class) {
    std::lock_guard const guard(lists.lock);
    auto& bin = lists.bins[size_class];
    if (bin.empty()) {
      return nullptr;
    }
    waiting_reuses_.fetch_add(1, std::memory_order_relaxed);
    return take(bin, bin.begin());
  }
  bool take_from_lists(Block<R>* block) {
    for (std::size_t i = 0; i < lists_in_use_.load(std::memory_order_acquire); ++i) {
      if (auto* const lists = lists_[i].load(std::memory_order_acquire)) {
        std::lock_guard const guard(lists->lock);
        auto& bin = lists->bins[block->size_class];
        auto const found = std::find(bin.begin(), bin.end(), block);
        if (found != bin.end() && is_over(*block)) {
          bin.erase(found);
          return true;
        }
      }
    }
    return false;
  }

  /// Memory never used before; null when the limit or the runtime has no more.
  Block<R>* fresh(SizeClass wanted) {
    std::lock_guard const growth(growth_mutex_);
    if (wanted.bytes > kLargestCutBytes) {
      auto* const memory = obtain(wanted.bytes);
      if (memory == nullptr) {
        return nullptr;
      }
      pieces_.back().only_block = new_block(memory, wanted);
      return pieces_.back().only_block;
    }
    if (uncut_bytes_ < wanted.bytes) {
      std::size_t bytes =
          std::clamp(options_.max_growth_bytes, wanted.bytes, std::max(wanted.bytes, kPieceBytes));
      auto* memory = obtain(bytes);
      if (memory == nullptr) {
        bytes = wanted.bytes;
        memory = obtain(bytes);
      }
      if (memory == nullptr) {
        return nullptr;
      }
      shelve_uncut();
      uncut_ = memory;
      uncut_bytes_ = bytes;
    }
    return new_block(cut(wanted.bytes), wanted);
  }
  /// A new piece from the runtime; null when there is none to be had.
  std::byte* obtain(std::size_t bytes) {
    if (!reserve(bytes)) {
      return nullptr;
    }
    void* memory = nullptr;
    try {
      memory = space_ == Space::device ? context_->runtime->allocate_device(bytes)
                                       : context_->runtime->allocate_pinned(bytes);
    } catch (OutOfMemory const&) {
      reserved_.fetch_sub(bytes);
      return nullptr;
    } catch (...) {
      reserved_.fetch_sub(bytes);
      throw;
    }
    growths_.fetch_add(1, std::memory_order_relaxed);
    raise_to(peak_reserved_, reserved_.load());
    pieces_.push_back({memory, bytes, nullptr});
    return static_cast<std::byte*>(memory);
  }
  std::byte* cut(std::size_t bytes) {
    uncut_bytes_ -= bytes;
    return std::exchange(uncut_, uncut_ + bytes);
  }
  /// Cuts what is left of the old piece into free blocks.
  void shelve_uncut() {
    while (uncut_bytes_ >= SizeClass::kLeastBytes) {
      auto const fitting = SizeClass::within(std::min(uncut_bytes_, kLargestCutBytes));
      Block<R>* const block = new_block(cut(fitting.bytes), fitting);
      FreeLists& lists = lists_of(0);
      std::lock_guard const guard(lists.lock);
      lists.bins[fitting.index].push_back(block);
    }
  }
  Block<R>* new_block(std::byte* data, SizeClass size) {
    auto& block = blocks_.emplace_back(std::make_unique<Block<R>>());
    block->data = data;
    block->bytes = size.bytes;
    block->size_class = size.index;
    block->pool = this;
    return block.get();
  }
  /// Exact under racing threads: the bytes are claimed before the runtime is asked.
  bool reserve(std::size_t bytes) {
    auto reserved = reserved_.load();
    do {
      if (bytes > options_.limit_bytes || reserved > options_.limit_bytes - bytes) {
        return false;
      }
    } while (!reserved_.compare_exchange_weak(reserved, reserved + bytes));
    return true;
  }
  void release_to_runtime(void* memory, std::size_t bytes) noexcept {
    if (space_ == Space::device) {
      context_->runtime->free_device(memory, bytes);
    } else {
      context_->runtime->free_pinned(memory, bytes);
    }
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

  std::shared_ptr<StreamContext<R>> context_;
  Space space_;
  BlockPoolOptions options_;
  std::array<std::atomic<FreeLists*>, DependencyTracker<R>::kMaxStreams> lists_{};
  std::atomic<std::size_t> lists_in_use_{0};

  std::mutex growth_mutex_;  ///< guards the following four
  std::vector<Piece> pieces_;
  std::vector<std::unique_ptr<Block<R>>> blocks_;
  std::byte* uncut_ = nullptr;
  std::size_t uncut_bytes_ = 0;

  std::atomic<std::size_t> live_{0};
  std::atomic<std::size_t> peak_live_{0};
  std::atomic<std::size_t> reserved_{0};
  std::atomic<std::size_t> peak_reserved_{0};
  std::atomic<std::uint64_t> allocations_{0};
  std::atomic<std::uint64_t> growths_{0};
  std::atomic<std::uint64_t> waiting_reuses_{0};
};

}  // namespace msstream::memory
