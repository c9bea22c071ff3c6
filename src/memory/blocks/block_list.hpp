// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block.hpp"

namespace msstream::memory {

/// A list of blocks from the newest to the oldest, linked through the blocks themselves. A block is
/// in one list at most; adding and removing neither allocate nor branch. Not synchronised.
class BlockList {
 public:
  BlockList() = default;
  BlockList(BlockList const&) = delete;
  BlockList& operator=(BlockList const&) = delete;

  [[nodiscard]] bool empty() const noexcept { return ends_.older == &ends_; }
  [[nodiscard]] bool has_several() const noexcept { return ends_.older != ends_.newer; }
  // newest() and oldest() return null if the list is empty.
  [[nodiscard]] Block* newest() const noexcept { return block_or_null(ends_.older); }
  [[nodiscard]] Block* oldest() const noexcept { return block_or_null(ends_.newer); }
  /// Returns the next older block, or null if there is none. The block must be in the list.
  [[nodiscard]] Block* older_than(Block const& block) const noexcept {
    return block_or_null(block.older);
  }
  [[nodiscard]] Block* newer_than(Block const& block) const noexcept {
    return block_or_null(block.newer);
  }

  void add(Block& block) noexcept {
    block.newer = &ends_;
    block.older = ends_.older;
    ends_.older->newer = &block;
    ends_.older = &block;
  }
  /// Removes a block, which must be in the list.
  static void remove(Block& block) noexcept {
    block.newer->older = block.older;
    block.older->newer = block.newer;
  }

 private:
  [[nodiscard]] Block* block_or_null(ListLinks* links) const noexcept {
    return links != &ends_ ? static_cast<Block*>(links) : nullptr;
  }

  ListLinks ends_{&ends_, &ends_};  ///< the sentinel, both newer and older than all blocks
};

}  // namespace msstream::memory
