// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

namespace msstream {

/// The first exception that work on a launch thread threw, until the caller takes it.
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
  /// How many there were, taken or not: what was issued since an earlier count, and is kept, may be
  /// without its contents when this one differs.
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool present() const noexcept { return present_.load(std::memory_order_acquire); }
  /// Throws it and forgets it; costs a load when there is none.
  void rethrow() {
    if (present()) [[unlikely]] {
      std::unique_lock lock(mutex_);
      present_.store(false, std::memory_order_relaxed);
      auto const failure = std::exchange(failure_, nullptr);
      lock.unlock();
      if (failure != nullptr) {  // else another caller was faster
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

}  // namespace msstream
