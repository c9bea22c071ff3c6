// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace msstream::memory {

struct Block;

/// A shared reference to a block; the last one gives the block back. Never null unless moved from.
class BlockRef {
 public:
  /// Makes the first reference to a block that is allocated.
  explicit BlockRef(Block* block) noexcept;
  /// Makes another reference to a block that has one already.
  [[nodiscard]] static BlockRef share(Block& block) noexcept {
    add_reference(block);
    return BlockRef(block);
  }
  BlockRef(BlockRef const& other) noexcept : block_(other.block_) {
    if (block_ != nullptr) {
      add_reference(*block_);
    }
  }
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef() {
    if (block_ != nullptr) {
      drop_reference(*block_);
    }
  }

  [[nodiscard]] Block& operator*() const noexcept { return *block_; }
  [[nodiscard]] Block* operator->() const noexcept { return block_; }
  friend bool operator==(BlockRef const&, BlockRef const&) = default;

 private:
  explicit BlockRef(Block& counted) noexcept : block_(&counted) {}

  static void add_reference(Block& block) noexcept;
  /// Gives the block back if the reference is the last.
  static void drop_reference(Block& block) noexcept;

  Block* block_;
};

}  // namespace msstream::memory
