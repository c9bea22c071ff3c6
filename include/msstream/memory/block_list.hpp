// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/block.hpp>

namespace msstream::memory {

/// Blocks from the newest to the oldest, by `older` and `newer` of each. A block is in one list at
/// most; entering and leaving take no memory and look at no third block. Not synchronised.
template <Runtime R>
class BlockList {
 public:
  [[nodiscard]] bool empty() const noexcept { return newest_ == nullptr; }
  [[nodiscard]] bool has_several() const noexcept { return newest_ != oldest_; }
  /// Null where it is empty.
  [[nodiscard]] Block<R>* newest() const noexcept { return newest_; }
  [[nodiscard]] Block<R>* oldest() const noexcept { return oldest_; }

  void add(Block<R>& block) noexcept {
    block.newer = nullptr;
    block.older = newest_;
    (newest_ != nullptr ? newest_->newer : oldest_) = &block;
    newest_ = &block;
  }
  /// The block is in the list.
  void remove(Block<R>& block) noexcept {
    (block.newer != nullptr ? block.newer->older : newest_) = block.older;
    (block.older != nullptr ? block.older->newer : oldest_) = block.newer;
  }

 private:
  Block<R>* newest_ = nullptr;
  Block<R>* oldest_ = nullptr;
};

}  // namespace msstream::memory
