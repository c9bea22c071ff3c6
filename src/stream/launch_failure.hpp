// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

namespace msstream::detail {

/// Keeps the first exception that an operation on a launch thread threw, until a caller takes the
/// exception.
class LaunchFailure {
 public:
  void keep(std::exception_ptr failure) noexcept {
    count_.fetch_add(1, std::memory_order_release);
    std::lock_guard const guard(mutex_);
    if (!failure_) {
      failure_ = std::move(failure);
      present_.store(true, std::memory_order_release);
    }
  }
  /// Returns the number of failures so far, including those that callers have taken. If the number
  /// has changed since some work was issued, the results of that work may be missing.
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool present() const noexcept { return present_.load(std::memory_order_acquire); }
  /// Throws the kept exception and forgets it. Costs one load if there is none.
  void rethrow() {
    if (present()) [[unlikely]] {
      std::unique_lock lock(mutex_);
      present_.store(false, std::memory_order_relaxed);
      auto const failure = std::exchange(failure_, nullptr);
      lock.unlock();
      if (failure != nullptr) {  // null if another caller has taken it first
        std::rethrow_exception(failure);
      }
    }
  }

 private:
  std::atomic<std::uint64_t> count_{0};
  std::mutex mutex_;
  std::atomic<bool> present_{false};
  std::exception_ptr failure_;
};

}  // namespace msstream::detail
