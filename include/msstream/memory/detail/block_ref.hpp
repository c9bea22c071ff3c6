// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace msstream::memory {

struct Block;

/// A counted reference to a block of memory. Dropping the last reference returns the block to its
/// allocator. Null only if moved from.
class BlockRef {
 public:
  /// Makes the first reference to a newly allocated block.
  explicit BlockRef(Block* block) noexcept;
  /// Makes a further reference to a block that is already referenced.
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
  /// Drops a reference, and returns the block to its allocator if the reference was the last.
  static void drop_reference(Block& block) noexcept;

  Block* block_;
};

}  // namespace msstream::memory
