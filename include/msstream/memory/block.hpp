// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/size_class.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/stream/access.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace msstream {

template <Runtime R>
struct DeviceState;

namespace memory {

template <Runtime R>
class BlockPool;

template <Runtime R>
class LentMemory;

template <Runtime R>
struct Block;

/// Whether there is memory behind a block of an arena, and whether it is the arena's to give out.
enum class Holding : std::uint8_t { used, free, absent };

/// What the arena that a block belongs to knows of it.
template <Runtime R>
struct ArenaLinks {
  Block<R>* lower = nullptr;  ///< that ends where this one begins
  Block<R>* higher = nullptr;
  Block<R>* made_before = nullptr;
  Holding holding = Holding::used;
};

/// The neighbours in the BlockList that a block is in.
struct ListLinks {
  ListLinks* newer = nullptr;
  ListLinks* older = nullptr;
};

/// A piece of device or pinned memory with the record of its accesses.
///
/// The record stays with the memory when it goes back to its pool and to the next owner: that
/// owner's first write is ordered after the last uses like after any other access. So giving memory
/// back takes no event and no wait. Blocks of different streams share no line of the processor's
/// cache.
template <Runtime R>
struct alignas(64) Block : ListLinks {
  AccessRecord record;
  std::byte* data = nullptr;
  std::size_t bytes = 0;  ///< capacity
  std::size_t size_class = SizeClass::kNone;
  ArenaLinks<R> arena;
  std::atomic<LentMemory<R>*> lent_to{nullptr};  ///< changes under its lock
  order::StreamIndex home = 0;                   ///< whose free list it goes back to
  std::atomic<bool> immutable{false};            ///< only read, and therefore not tracked
  std::atomic<std::uint32_t> references{0};
  std::atomic<std::uint32_t> captured_reads{0};  ///< references by CapturedRead
  BlockPool<R>* pool = nullptr;                  ///< null for memory that someone else owns:
  void (*release)(Block*) noexcept = nullptr;    ///< gives that back to its owner
  /// Where it was allocated; null outside all scopes, and while it is free.
  std::shared_ptr<std::string const> scope;
  /// Of whoever keeps the device alive for the block while it is in use.
  std::shared_ptr<DeviceState<R>> const* device = nullptr;
};

/// Shared ownership of a block; the last one gives it back. Never null but when moved from.
template <Runtime R = DefaultRuntime>
class BlockRef {
 public:
  /// The first reference to a block that is given out.
  explicit BlockRef(Block<R>* block) noexcept : block_(block) {
    block_->references.store(1, std::memory_order_relaxed);
  }
  /// One more reference to a block that somebody holds.
  [[nodiscard]] static BlockRef share(Block<R>& block) noexcept {
    block.references.fetch_add(1, std::memory_order_relaxed);
    return BlockRef(block);
  }
  BlockRef(BlockRef const& other) noexcept : block_(other.block_) { add_reference(); }
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef() {
    if (block_ != nullptr && is_last()) {
      give_back();
    }
  }

  [[nodiscard]] Block<R>& operator*() const noexcept { return *block_; }
  [[nodiscard]] Block<R>* operator->() const noexcept { return block_; }
  friend bool operator==(BlockRef const&, BlockRef const&) = default;

 private:
  explicit BlockRef(Block<R>& counted) noexcept : block_(&counted) {}

  void give_back() const noexcept {
    if (block_->pool != nullptr) {
      block_->pool->give_back(block_);
    } else {
      block_->release(block_);
    }
  }
  /// Nobody can take another reference from the last one.
  [[nodiscard]] bool is_last() const noexcept {
    return block_->references.load(std::memory_order_acquire) == 1 ||
           block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  void add_reference() const noexcept {
    if (block_ != nullptr) {
      block_->references.fetch_add(1, std::memory_order_relaxed);
    }
  }

  Block<R>* block_;
};

}  // namespace memory
}  // namespace msstream
