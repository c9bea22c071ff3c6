// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/pools.hpp>
#include <msstream/order/position_set.hpp>
#include <msstream/runtime/compiled_once.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::memory {

/// The pools of captures, and captures that nobody launches any more until their last launch is
/// over. Nobody waits for that: sweep() finds what is, and whoever wants memory or has waited for
/// the device sweeps. Thread-safe.
///
/// Pools have an owner besides this as long as a graph uses what is free in them. After that their
/// memory goes back as it gets free, and they with the last of it.
template <Runtime R>
class PrivatePools {
 public:
  explicit PrivatePools(std::shared_ptr<DependencyTracker<R>> tracker)
      : tracker_(std::move(tracker)) {}
  PrivatePools(PrivatePools const&) = delete;
  PrivatePools& operator=(PrivatePools const&) = delete;
  /// Waits for the last launches.
  ~PrivatePools() {
    for (auto const& entry : retired_) {
      for (auto const& launch : entry.last_launch) {
        tracker_->finish(launch);
      }
    }
  }

  void add(std::shared_ptr<Pools<R>> pools) {
    std::lock_guard const guard(mutex_);
    pools->set_abandoned(abandoned_);
    pools_.push_back(std::move(pools));
    count_.store(pools_.size() + retired_.size());
  }
  /// `work` goes when its last launch is over.
  void retire(std::shared_ptr<void> work, order::PositionSet const& last_launch) {
    std::lock_guard const guard(mutex_);
    retired_.push_back({std::move(work), last_launch});
    count_.store(pools_.size() + retired_.size());
  }
  /// Lets go what nobody needs. Costs a load where there is nothing; waits for no launch. What it
  /// throws the runtime has thrown, and a later call goes on.
  void sweep() {
    if (count_.load(std::memory_order_acquire) == 0) {
      return;
    }
    std::vector<Retired> over;  // both go when the lock is free, the pools last
    std::vector<std::shared_ptr<Pools<R>>> unneeded;
    std::unique_lock lock(mutex_);
    take_from(retired_, over, [this](Retired const& entry) { return is_over(entry); });
    lock.unlock();
    over.clear();
    lock.lock();
    take_from(pools_, unneeded, [](auto const& pools) {
      return has_no_other_owner(pools) && give_back_all(*pools);
    });
    for (auto const& pools : unneeded) {
      counts_of_gone_ += pools->statistics();
    }
    count_.store(pools_.size() + retired_.size());
    lock.unlock();
  }
  /// Of pools that have gone.
  [[nodiscard]] AllocationCounts counts_of_gone() const {
    std::lock_guard const guard(mutex_);
    return counts_of_gone_;
  }
  /// Whether sweep() may find more a little later.
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
  /// `visit(pool)`, under the lock.
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
  [[nodiscard]] static bool has_no_other_owner(std::shared_ptr<Pools<R>> const& pools) noexcept {
    // use_count() orders nothing; taking and dropping a reference comes after what the last other
    // owner did.
    std::shared_ptr<Pools<R>>(pools).reset();
    return pools.use_count() == 1;
  }
  /// Whether nothing is left.
  [[nodiscard]] static bool give_back_all(Pools<R>& pools) {
    pools.return_cached_memory();
    auto const left = pools.statistics();
    return left.live_bytes == 0 && left.reserved_bytes == 0;
  }

  std::shared_ptr<DependencyTracker<R>> tracker_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Pools<R>>> pools_;
  std::vector<Retired> retired_;
  AllocationCounts counts_of_gone_;
  bool abandoned_ = false;
  std::atomic<std::size_t> count_{0};
};

MSSTREAM_COMPILED_ONCE(class PrivatePools<DefaultRuntime>);

}  // namespace msstream::memory
