// SPDX-License-Identifier: Apache-2.0
#include "memory/blocks/block.hpp"
#include "memory/pools/block_pool.hpp"

#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/trace/detail/stack_range.hpp>

#include <atomic>
#include <memory>

namespace msstream::memory {

BlockRef::BlockRef(Block* block) noexcept : block_(block) {
  block_->references.store(1, std::memory_order_relaxed);
}

void BlockRef::add_reference(Block& block) noexcept {
  block.references.fetch_add(1, std::memory_order_relaxed);
}

void BlockRef::drop_reference(Block& block) noexcept {
  // If the count is 1, no other thread can add a reference, so the count need not be decremented.
  bool const is_last = block.references.load(std::memory_order_acquire) == 1 ||
                       block.references.fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (!is_last) {
    return;
  }
  if (block.pool != nullptr && detail::nvtx_listens()) [[unlikely]] {
    auto const device = *block.device;  // may be the last owner of the pool
    block.pool->give_back(&block);
    detail::note_free(*device);
  } else if (block.pool != nullptr) {
    block.pool->give_back(&block);
  } else {
    block.release(&block);
  }
}

}  // namespace msstream::memory
