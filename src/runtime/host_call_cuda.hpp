// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/base/unheard_failure.hpp>
#include <msstream/runtime/home_process.hpp>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace msstream::detail {

/// The first exception that a host function of a device threw, which the driver could not pass on,
/// until a wait for the device throws it. Those that follow before that are written to the log, and
/// so is one that no call has thrown when the device and its host functions are gone. Thread-safe.
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
  /// Throws it and forgets it, unless the caller drops what it catches; costs a load when there is
  /// none.
  void rethrow() {
    if (!present_.load(std::memory_order_acquire) || !UnheardFailure::is_heard()) [[likely]] {
      return;
    }
    std::unique_lock lock(mutex_);
    present_.store(false, std::memory_order_relaxed);
    auto const failure = std::exchange(failure_, nullptr);
    lock.unlock();
    if (failure != nullptr) {  // else another caller was faster
      std::rethrow_exception(failure);
    }
  }

 private:
  HomeProcess home_{RuntimeLife::driver};
  std::mutex mutex_;
  std::atomic<bool> present_{false};
  std::exception_ptr failure_;
};

/// A host function of a stream or a graph, and who keeps what it throws: no exception passes
/// through the driver.
struct HostCall {
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
