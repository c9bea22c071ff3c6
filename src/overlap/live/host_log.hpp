// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/host_call.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
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
    std::int64_t system_thread = 0;  ///< the system's number of it
  };

  explicit HostLog(std::function<double()> now_ns) : clock_(std::move(now_ns)) {}

  /// Returns the system's number of the calling thread, by which CUPTI calls it.
  [[nodiscard]] static std::int64_t system_number_of_thread() noexcept {
    static thread_local std::int64_t const number = syscall(SYS_gettid);
    return number;
  }

  [[nodiscard]] double now_ns() const noexcept override { return clock_(); }
  void called(detail::HostCall const& call, double begin_ns) noexcept override {
    auto const end_ns = clock_();
    try {
      std::lock_guard const guard(mutex_);
      entries_.push_back(
          {call, begin_ns, end_ns, std::this_thread::get_id(), system_number_of_thread()});
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
