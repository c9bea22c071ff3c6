// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/memory/block.hpp>
#include <msstream/memory/block_uses.hpp>
#include <msstream/memory/size_class.hpp>
#include <msstream/runtime/observing.hpp>
#include <msstream/stream/stream_context.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::memory {

enum class Space : std::uint8_t { device, pinned };

struct BlockSourceOptions {
  std::size_t limit_bytes;       ///< never reserves more
  std::size_t max_growth_bytes;  ///< takes at most this at a time from the runtime, one larger
                                 ///< block excepted
};

/// Takes memory from the runtime, in pieces and under a limit, and cuts blocks from it. Owns both.
/// Thread-safe, with one lock: this is the slow path.
template <Runtime R>
class BlockSource {
 public:
  BlockSource(std::shared_ptr<StreamContext<R>> context, Space space, BlockSourceOptions options)
      : context_(std::move(context)), space_(space), options_(options) {}
  BlockSource(BlockSource const&) = delete;
  BlockSource& operator=(BlockSource const&) = delete;
  /// All blocks are free. Waits for their last uses.
  ~BlockSource() {
    for (auto const& block : blocks_) {
      for_each_use(*block, [&](order::Position use) { context_->tracker->finish(use); });
    }
    for (auto const& piece : pieces_) {
      release_to_runtime(piece.memory, piece.bytes);
    }
  }

  /// A block that was never used before; null when the limit or the runtime has no more. What is
  /// left of an earlier piece goes to `spare(block)`.
  template <class Spare>
  [[nodiscard]] Block<R>* fresh(SizeClass wanted, Spare&& spare) {
    std::lock_guard const guard(mutex_);
    if (wanted.bytes > kLargestCutBytes) {
      auto* const memory = obtain(wanted.bytes);
      if (memory == nullptr) {
        return nullptr;
      }
      return new_block(memory, wanted);
    }
    if (uncut_bytes_ < wanted.bytes) {
      std::size_t bytes = std::max(wanted.bytes, options_.max_growth_bytes);
      auto* memory = obtain(bytes);
      if (memory == nullptr) {
        bytes = wanted.bytes;
        memory = obtain(bytes);
      }
      if (memory == nullptr) {
        return nullptr;
      }
      cut_up_the_rest(spare);
      uncut_ = memory;
      uncut_bytes_ = bytes;
    }
    return new_block(cut(wanted.bytes), wanted);
  }

  /// Gives those pieces back to the runtime whose blocks `take(block)` hands over, all of them;
  /// `put_back(block)` gets the blocks of a piece that stays.
  template <class Take, class PutBack>
  void return_pieces(Take&& take, PutBack&& put_back) {
    std::lock_guard const guard(mutex_);
    for (auto place = pieces_.begin(); place != pieces_.end();) {
      Piece const piece = *place;
      if (!take_blocks_of(piece, take, put_back)) {
        ++place;
        continue;
      }
      if (uncut_ != nullptr && piece.holds(uncut_ - 1)) {
        uncut_ = nullptr;
        uncut_bytes_ = 0;
      }
      std::erase_if(blocks_, [&](auto const& block) { return piece.holds(block->data); });
      place = pieces_.erase(place);
      release_to_runtime(piece.memory, piece.bytes);
      reserved_.fetch_sub(piece.bytes);
    }
  }

  [[nodiscard]] R& runtime() const noexcept { return *context_->runtime; }
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return options_.limit_bytes; }
  [[nodiscard]] std::size_t reserved_bytes() const noexcept { return reserved_.load(); }
  [[nodiscard]] std::size_t peak_reserved_bytes() const noexcept { return peak_reserved_.load(); }
  [[nodiscard]] std::uint64_t growths() const noexcept { return growths_.load(); }

 private:
  static constexpr std::size_t kLargestCutBytes = std::size_t{1} << 20U;

  /// What the runtime gave in one call.
  struct Piece {
    std::byte* memory;
    std::size_t bytes;

    [[nodiscard]] bool holds(std::byte const* address) const noexcept {
      return std::less_equal<>()(memory, address) && std::less<>()(address, memory + bytes);
    }
  };

  /// Whether all blocks of the piece are taken; else, and when taking throws, none is.
  template <class Take, class PutBack>
  bool take_blocks_of(Piece const& piece, Take& take, PutBack& put_back) {
    std::vector<Block<R>*> taken;
    taken.reserve(blocks_.size());
    try {
      for (auto const& block : blocks_) {
        if (piece.holds(block->data)) {
          if (!take(block.get())) {
            std::for_each(taken.begin(), taken.end(), put_back);
            return false;
          }
          taken.push_back(block.get());
        }
      }
    } catch (...) {
      std::for_each(taken.begin(), taken.end(), put_back);
      throw;
    }
    return true;
  }

  /// A new piece; null when there is none to be had.
  std::byte* obtain(std::size_t bytes) {
    if (!reserve(bytes)) {
      return nullptr;
    }
    void* memory = nullptr;
    try {
      memory = space_ == Space::device ? context_->runtime->allocate_device(bytes)
                                       : context_->runtime->allocate_pinned(bytes);
      observe::memory_pooled(*context_->runtime, memory, bytes);
      pieces_.push_back({static_cast<std::byte*>(memory), bytes});
    } catch (OutOfMemory const&) {
      reserved_.fetch_sub(bytes);
      return nullptr;
    } catch (...) {
      if (memory != nullptr) {
        release_to_runtime(memory, bytes);
      }
      reserved_.fetch_sub(bytes);
      throw;
    }
    growths_.fetch_add(1, std::memory_order_relaxed);
    peak_reserved_.store(std::max(peak_reserved_.load(), reserved_.load()));
    return pieces_.back().memory;
  }
  bool reserve(std::size_t bytes) {
    auto const reserved = reserved_.load();
    if (bytes > options_.limit_bytes || reserved > options_.limit_bytes - bytes) {
      return false;
    }
    reserved_.store(reserved + bytes);
    return true;
  }
  std::byte* cut(std::size_t bytes) {
    uncut_bytes_ -= bytes;
    return std::exchange(uncut_, uncut_ + bytes);
  }
  template <class Spare>
  void cut_up_the_rest(Spare&& spare) {
    while (uncut_bytes_ >= SizeClass::kLeastBytes) {
      auto const fitting = SizeClass::within(std::min(uncut_bytes_, kLargestCutBytes));
      spare(new_block(cut(fitting.bytes), fitting));
    }
  }
  Block<R>* new_block(std::byte* data, SizeClass size) {
    auto& block = blocks_.emplace_back(std::make_unique<Block<R>>());
    block->data = data;
    block->bytes = size.bytes;
    block->size_class = size.index;
    return block.get();
  }
  void release_to_runtime(void* memory, std::size_t bytes) noexcept {
    if (space_ == Space::device) {
      context_->runtime->free_device(memory, bytes);
    } else {
      context_->runtime->free_pinned(memory, bytes);
    }
  }

  std::shared_ptr<StreamContext<R>> context_;
  Space space_;
  BlockSourceOptions options_;

  std::mutex mutex_;  ///< guards all below; the counters are read without it
  std::vector<Piece> pieces_;
  std::vector<std::unique_ptr<Block<R>>> blocks_;
  std::byte* uncut_ = nullptr;
  std::size_t uncut_bytes_ = 0;
  std::atomic<std::size_t> reserved_{0};
  std::atomic<std::size_t> peak_reserved_{0};
  std::atomic<std::uint64_t> growths_{0};
};

}  // namespace msstream::memory
