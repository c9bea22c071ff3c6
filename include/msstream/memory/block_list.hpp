// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/block.hpp>

namespace msstream::memory {

/// Blocks from the newest to the oldest, by links in each. A block is in one list at most; entering
/// and leaving take no memory and no branch. Not synchronised.
template <Runtime R>
class BlockList {
 public:
  BlockList() = default;
  BlockList(BlockList const&) = delete;
  BlockList& operator=(BlockList const&) = delete;

  [[nodiscard]] bool empty() const noexcept { return ends_.older == &ends_; }
  [[nodiscard]] bool has_several() const noexcept { return ends_.older != ends_.newer; }
  // Null where there is none.
  [[nodiscard]] Block<R>* newest() const noexcept { return block_or_null(ends_.older); }
  [[nodiscard]] Block<R>* oldest() const noexcept { return block_or_null(ends_.newer); }
  /// Of those in the list.
  [[nodiscard]] Block<R>* older_than(Block<R> const& block) const noexcept {
    return block_or_null(block.older);
  }
  [[nodiscard]] Block<R>* newer_than(Block<R> const& block) const noexcept {
    return block_or_null(block.newer);
  }

  void add(Block<R>& block) noexcept {
    block.newer = &ends_;
    block.older = ends_.older;
    ends_.older->newer = &block;
    ends_.older = &block;
  }
  /// The block is in the list.
  static void remove(Block<R>& block) noexcept {
    block.newer->older = block.older;
    block.older->newer = block.newer;
  }

 private:
  [[nodiscard]] Block<R>* block_or_null(ListLinks* links) const noexcept {
    return links != &ends_ ? static_cast<Block<R>*>(links) : nullptr;
  }

  ListLinks ends_{&ends_, &ends_};  ///< newer than all, and older than all
};

}  // namespace msstream::memory
