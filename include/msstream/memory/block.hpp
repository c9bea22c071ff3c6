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

/// The state of an arena's block: in use, free, or without memory behind its addresses.
enum class Holding : std::uint8_t { used, free, absent };

/// The data that an arena keeps about one of its blocks.
template <Runtime R>
struct ArenaLinks {
  Block<R>* lower = nullptr;  ///< the block that ends where this one begins
  Block<R>* higher = nullptr;
  Block<R>* made_before = nullptr;
  Holding holding = Holding::used;
};

/// The neighbours of a block in its BlockList.
struct ListLinks {
  ListLinks* newer = nullptr;
  ListLinks* older = nullptr;
};

/// A piece of device or pinned memory with the record of its accesses.
///
/// The record stays with the memory when it is freed and allocated again: the first write of the
/// next owner is ordered after the last uses like after any other access. Freeing memory therefore
/// needs no event and no wait. Blocks of different streams share no cache line.
template <Runtime R>
struct alignas(64) Block : ListLinks {
  AccessRecord record;
  std::byte* data = nullptr;
  std::size_t bytes = 0;  ///< the capacity of the block
  std::size_t size_class = SizeClass::kNone;
  ArenaLinks<R> arena;
  /// The LentMemory that the block is a part of, or null. Changes under the lock of the LentMemory.
  std::atomic<LentMemory<R>*> lent_to{nullptr};
  order::StreamIndex home = 0;         ///< the stream whose free list the block returns to
  std::atomic<bool> immutable{false};  ///< the block is only read, and therefore not tracked
  std::atomic<std::uint32_t> references{0};
  std::atomic<std::uint32_t> captured_reads{0};  ///< the number of references by CapturedRead
  BlockPool<R>* pool = nullptr;                ///< null if the memory has another owner than a pool
  void (*release)(Block*) noexcept = nullptr;  ///< gives the memory back if there is no pool
  /// The name scope of the allocation. Null outside all scopes, and while the block is free.
  std::shared_ptr<std::string const> scope;
  /// The reference that keeps the device alive while the block is in use.
  std::shared_ptr<DeviceState<R>> const* device = nullptr;
};

/// A shared reference to a block; the last one gives the block back. Never null unless moved from.
template <Runtime R = DefaultRuntime>
class BlockRef {
 public:
  /// Makes the first reference to a block that is allocated.
  explicit BlockRef(Block<R>* block) noexcept : block_(block) {
    block_->references.store(1, std::memory_order_relaxed);
  }
  /// Makes another reference to a block that has one already.
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
  /// Drops this reference and returns whether it was the last. If the count is 1, no other thread
  /// can add a reference, so the count is left as it is.
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
