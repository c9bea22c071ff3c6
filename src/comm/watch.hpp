// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/dependency_tracker.hpp"

#include <msstream/order/detail/position_set.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace msstream::comm::detail {

/// A thread that calls a function again and again, until it is destroyed.
///
/// States: runs, then is told to stop. Ownership: the owner's; the function may use what outlives
/// the object.
class Watch {
 public:
  Watch(std::chrono::nanoseconds interval, std::function<void()> look);
  /// Waits for the function, if it is being called.
  ~Watch();
  Watch(Watch const&) = delete;
  Watch& operator=(Watch const&) = delete;

 private:
  void run(std::chrono::nanoseconds interval);

  std::function<void()> look_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  std::thread thread_;
};

/// The progress of work on the device, as a thread sees it that looks now and then.
class Progress {
 public:
  explicit Progress(std::shared_ptr<msstream::detail::DependencyTracker> tracker)
      : tracker_(std::move(tracker)) {}

  /// Looks which work is complete. `latest` is the latest work known. Work that has failed counts
  /// as complete.
  void look(order::PositionSet latest);
  [[nodiscard]] bool is_in_flight() const noexcept { return !seen_.empty(); }
  /// Returns for how long nothing has ended, although work is in flight.
  [[nodiscard]] std::chrono::nanoseconds stalled() const;

 private:
  void drop_complete(order::PositionSet& positions);

  std::shared_ptr<msstream::detail::DependencyTracker> tracker_;
  /// The latest work at each look, the oldest first, as far as it is not complete.
  std::deque<order::PositionSet> seen_;
  std::chrono::steady_clock::time_point progress_at_;
};

}  // namespace msstream::comm::detail
