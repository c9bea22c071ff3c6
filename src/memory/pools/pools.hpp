// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/pools/block_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::memory {

/// The memory pools of a device: one pool for all stream groups, or several. Thread-safe once all
/// pools are added.
class Pools {
 public:
  void add(std::shared_ptr<detail::StreamContext> context, Space space, BlockPoolOptions options) {
    pools_.push_back(std::make_unique<BlockPool>(std::move(context), space, std::move(options)));
  }
  [[nodiscard]] std::size_t count() const noexcept { return pools_.size(); }

  /// Returns the pool of the stream's group. The default group uses the first pool.
  [[nodiscard]] BlockPool& of(detail::StreamSlot const& stream) noexcept {
    auto const group = static_cast<std::size_t>(std::max(stream.identity.group, 0));
    return *pools_[pools_.size() == 1 ? 0 : group % pools_.size()];
  }
  /// Returns whether the block is from one of the pools.
  [[nodiscard]] bool own(Block const& block) const noexcept {
    return std::any_of(
        pools_.begin(), pools_.end(), [&](auto const& pool) { return pool.get() == block.pool; });
  }

  /// Calls `visit(pool)` for each pool.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (auto const& pool : pools_) {
      visit(*pool);
    }
  }
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (auto const& pool : pools_) {
      visit(std::as_const(*pool));
    }
  }

  // Functions of BlockPool, applied to all pools together.

  [[nodiscard]] MemoryStatistics statistics() const {
    MemoryStatistics total;
    for_each([&](BlockPool const& pool) { total += pool.statistics(); });
    return total;
  }
  [[nodiscard]] bool have_pending() const {
    return std::any_of(
        pools_.begin(), pools_.end(), [](auto const& pool) { return pool->pending_bytes() != 0; });
  }
  /// Releases free memory to the runtime until each pool reserves no more than `bytes`.
  void return_cached_memory(std::size_t bytes = 0) {
    for_each([&](BlockPool& pool) { pool.return_cached_memory(bytes); });
  }
  void set_abandoned(bool abandoned) {
    for_each([&](BlockPool& pool) { pool.set_abandoned(abandoned); });
  }

 private:
  std::vector<std::unique_ptr<BlockPool>> pools_;
};

}  // namespace msstream::memory
