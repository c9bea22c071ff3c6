// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/position.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/stream/access.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace msstream {

template <Runtime R>
struct DeviceState;

namespace memory {

template <Runtime R>
class BlockPool;

/// A piece of device or pinned memory with the record of its accesses.
///
/// The record stays with the memory when it goes back to its pool and to the next owner: that
/// owner's first write is ordered after the last uses like after any other access. So giving memory
/// back takes no event and no wait.
template <Runtime R>
struct Block {
  AccessRecord record;
  std::byte* data = nullptr;
  std::size_t bytes = 0;  ///< capacity
  std::size_t size_class = 0;
  order::StreamIndex home = 0;         ///< whose free list it goes back to
  std::atomic<bool> immutable{false};  ///< only read, and therefore not tracked
  std::atomic<std::uint32_t> references{0};
  BlockPool<R>* pool = nullptr;                ///< null for memory that someone else owns:
  void (*release)(Block*) noexcept = nullptr;  ///< gives that back to its owner
  std::shared_ptr<DeviceState<R>> device;      ///< set while in use: memory keeps its device alive
};

/// Shared ownership of a block; the last one gives it back. Never null but when moved from.
template <Runtime R>
class BlockRef {
 public:
  explicit BlockRef(Block<R>* block) noexcept : block_(block) { add_reference(); }
  BlockRef(BlockRef const& other) noexcept : block_(other.block_) { add_reference(); }
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef() {
    if (block_ != nullptr && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      give_back();
    }
  }

  [[nodiscard]] Block<R>& operator*() const noexcept { return *block_; }
  [[nodiscard]] Block<R>* operator->() const noexcept { return block_; }
  friend bool operator==(BlockRef const&, BlockRef const&) = default;

 private:
  void give_back() const noexcept {
    if (block_->pool != nullptr) {
      block_->pool->give_back(block_);
    } else {
      block_->release(block_);
    }
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
