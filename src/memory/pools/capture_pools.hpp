// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/sole_owner.hpp"
#include "memory/pools/pools.hpp"

#include <msstream/order/detail/position_set.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::memory {

/// Keeps the memory pools of captures, and captures that will not be launched again, until their
/// last launch is complete. No thread waits for a launch: sweep() destroys what is complete, and is
/// called by threads that need memory or have waited for the device. Thread-safe.
///
/// A graph that uses the free memory of pools owns them, too. When no graph does any more, the
/// pools' memory is released as it becomes free, and the pools are destroyed with the last of it.
class CapturePools {
 public:
  explicit CapturePools(std::shared_ptr<detail::DependencyTracker> tracker)
      : tracker_(std::move(tracker)) {}
  CapturePools(CapturePools const&) = delete;
  CapturePools& operator=(CapturePools const&) = delete;
  /// Blocks the host until the last launches of all captures are complete.
  ~CapturePools() {
    for (auto const& entry : retired_) {
      for (auto const& launch : entry.last_launch) {
        tracker_->finish(launch);
      }
    }
  }

  void add(std::shared_ptr<Pools> pools) {
    std::lock_guard const guard(mutex_);
    pools->set_abandoned(abandoned_);
    pools_.push_back(std::move(pools));
    count_.store(pools_.size() + retired_.size());
  }
  /// Keeps `work`, the resources of a captured graph, until its last launch is complete.
  void retire(std::shared_ptr<void> work, order::PositionSet const& last_launch) {
    std::lock_guard const guard(mutex_);
    retired_.push_back({std::move(work), last_launch});
    count_.store(pools_.size() + retired_.size());
  }
  /// Destroys captures whose last launch is complete, and pools without memory that no graph owns.
  /// Costs one load if there are none, and does not wait for launches. Passes on exceptions of the
  /// runtime; a later call continues.
  void sweep() {
    if (count_.load(std::memory_order_acquire) == 0) {
      return;
    }
    std::vector<Retired> over;  // `over` and `unneeded` are destroyed without the lock
    std::vector<std::shared_ptr<Pools>> unneeded;
    std::unique_lock lock(mutex_);
    take_from(retired_, over, [this](Retired const& entry) { return is_over(entry); });
    lock.unlock();
    over.clear();
    lock.lock();
    take_from(pools_, unneeded, [](auto const& pools) {
      return detail::is_sole_owner(pools) && give_back_all(*pools);
    });
    for (auto const& pools : unneeded) {
      counts_of_gone_ += pools->statistics();
    }
    count_.store(pools_.size() + retired_.size());
    lock.unlock();
  }
  /// Returns the allocation counts of pools that were destroyed.
  [[nodiscard]] detail::AllocationCounts counts_of_gone() const {
    std::lock_guard const guard(mutex_);
    return counts_of_gone_;
  }
  /// Returns whether captures are waiting for their last launch, so that a later sweep() may
  /// destroy more.
  [[nodiscard]] bool has_retired() const {
    std::lock_guard const guard(mutex_);
    return !retired_.empty();
  }
  void set_abandoned(bool abandoned) {
    std::lock_guard const guard(mutex_);
    abandoned_ = abandoned;
    for (auto const& pools : pools_) {
      pools->set_abandoned(abandoned);
    }
  }
  /// Calls `visit(pool)` for each pool of a capture, with the lock held.
  template <class Visit>
  void for_each(Visit&& visit) const {
    std::lock_guard const guard(mutex_);
    for (auto const& pools : pools_) {
      std::as_const(*pools).for_each(visit);
    }
  }

 private:
  struct Retired {
    std::shared_ptr<void> work;
    order::PositionSet last_launch;
  };

  template <class T, class Predicate>
  static void take_from(std::vector<T>& from, std::vector<T>& to, Predicate&& predicate) {
    for (auto place = from.begin(); place != from.end();) {
      if (predicate(*place)) {
        to.push_back(std::move(*place));
        place = from.erase(place);
      } else {
        ++place;
      }
    }
  }
  [[nodiscard]] bool is_over(Retired const& entry) {
    return std::all_of(entry.last_launch.begin(),
                       entry.last_launch.end(),
                       [this](order::Position launch) { return tracker_->is_complete(launch); });
  }
  /// Releases the free memory of the pools, and returns whether they have no memory left.
  [[nodiscard]] static bool give_back_all(Pools& pools) {
    pools.return_cached_memory();
    auto const left = pools.statistics();
    return left.live_bytes == 0 && left.reserved_bytes == 0;
  }

  std::shared_ptr<detail::DependencyTracker> tracker_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Pools>> pools_;
  std::vector<Retired> retired_;
  detail::AllocationCounts counts_of_gone_;
  bool abandoned_ = false;
  std::atomic<std::size_t> count_{0};
};

}  // namespace msstream::memory
