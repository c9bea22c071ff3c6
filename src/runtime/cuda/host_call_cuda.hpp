// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/unheard_failure.hpp"

#include <msstream/base/closure.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace msstream::detail {

/// Keeps the first exception thrown by a host function of a device, until a wait for the device
/// rethrows it, because exceptions cannot pass through the driver. Writes further exceptions to the
/// log, and also an exception that was not rethrown before the device and its host functions are
/// destroyed. Thread-safe.
class HostFailure {
 public:
  HostFailure() = default;
  ~HostFailure() {
    if (failure_ != nullptr && !home_.is_left()) {
      UnheardFailure::log("a host function", failure_);
    }
  }
  HostFailure(HostFailure const&) = delete;
  HostFailure& operator=(HostFailure const&) = delete;

  void keep(std::exception_ptr failure) noexcept {
    {
      std::lock_guard const guard(mutex_);
      if (failure_ == nullptr) {
        failure_ = std::move(failure);
        present_.store(true, std::memory_order_release);
        return;
      }
    }
    UnheardFailure::log("another host function", failure);
  }
  /// Rethrows the kept exception, if any, and forgets it. Does nothing if the calling function is
  /// one that would ignore the exception. Costs one load if there is no exception.
  void rethrow() {
    if (!present_.load(std::memory_order_acquire) || !UnheardFailure::is_heard()) [[likely]] {
      return;
    }
    std::unique_lock lock(mutex_);
    present_.store(false, std::memory_order_relaxed);
    auto const failure = std::exchange(failure_, nullptr);
    lock.unlock();
    if (failure != nullptr) {  // null if another thread has just rethrown it
      std::rethrow_exception(failure);
    }
  }

 private:
  HomeProcess home_{RuntimeLife::driver};
  std::mutex mutex_;
  std::atomic<bool> present_{false};
  std::exception_ptr failure_;
};

/// A host function of a stream or a graph, and the HostFailure that keeps its exceptions, because
/// no exception may pass through the driver.
struct HostFunction {
  Closure closure;
  std::shared_ptr<HostFailure> failure;

  void run() noexcept {
    try {
      closure();
    } catch (...) {
      failure->keep(std::current_exception());
    }
  }
};

}  // namespace msstream::detail
