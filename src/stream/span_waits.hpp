// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/dependency_tracker.hpp"
#include "stream/wait_log.hpp"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The waits of a recorded timeline, between begin() and end(). If another device that shares the
/// dependency tracker is being recorded, there are none. Thread-safe.
class SpanWaits {
 public:
  explicit SpanWaits(std::shared_ptr<DependencyTracker> tracker) : tracker_(std::move(tracker)) {}
  SpanWaits(SpanWaits const&) = delete;
  SpanWaits& operator=(SpanWaits const&) = delete;
  ~SpanWaits() { static_cast<void>(end()); }

  /// Starts to store waits, and drops earlier ones.
  void begin() {
    std::lock_guard const guard(mutex_);
    if (log_ != nullptr) {
      static_cast<void>(log_->take());
      return;
    }
    auto log = std::make_shared<WaitLog>();
    if (tracker_->wait_log.begin(log)) {
      log_ = std::move(log);
    }
  }
  /// Returns the waits since begin(), and stores no more.
  [[nodiscard]] std::vector<trace::Timeline::Wait> end() noexcept {
    std::lock_guard const guard(mutex_);
    if (log_ == nullptr) {
      return {};
    }
    tracker_->wait_log.end();
    return std::exchange(log_, nullptr)->take();
  }

 private:
  std::shared_ptr<DependencyTracker> tracker_;
  std::mutex mutex_;
  std::shared_ptr<WaitLog> log_;
};

}  // namespace msstream::detail
