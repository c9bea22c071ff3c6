// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/host_call.hpp"

#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// Stores the calls of the host. Thread-safe.
class HostLog : public detail::HostCallObserver {
 public:
  struct Entry {
    detail::HostCall call;
    double begin_ns = 0;
    double end_ns = 0;
    std::thread::id thread;
  };

  explicit HostLog(std::function<double()> now_ns) : clock_(std::move(now_ns)) {}

  [[nodiscard]] double now_ns() const noexcept override { return clock_(); }
  void called(detail::HostCall const& call, double begin_ns) noexcept override {
    auto const end_ns = clock_();
    try {
      std::lock_guard const guard(mutex_);
      entries_.push_back({call, begin_ns, end_ns, std::this_thread::get_id()});
    } catch (
        ...) {  // NOLINT(bugprone-empty-catch): without memory, a call is missing in the report
    }
  }
  /// Returns the calls in the order in which they ended.
  [[nodiscard]] std::vector<Entry> take() {
    std::lock_guard const guard(mutex_);
    return std::move(entries_);
  }

 private:
  std::function<double()> clock_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace msstream::overlap
