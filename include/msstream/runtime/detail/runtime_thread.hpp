// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>

#include <utility>

namespace msstream::detail {

class InsideWork;
class LaunchPool;

/// Marks the threads that run streams' work (the host runtime's workers, CUDA's host functions).
/// Unlike the user's threads, they must not wait for streams, nor destroy objects that do.
class RuntimeThread {
 public:
  RuntimeThread() noexcept { current_ = true; }
  ~RuntimeThread() { current_ = false; }
  RuntimeThread(RuntimeThread const&) = delete;
  RuntimeThread& operator=(RuntimeThread const&) = delete;

  [[nodiscard]] static bool is_current() noexcept { return current_; }
  /// Returns the name of the operation that the calling thread is launching, for which other
  /// threads may wait; null if none.
  [[nodiscard]] static char const* launching() noexcept { return launching_; }
  /// Returns whether the calling thread runs a stream's work, launches an operation or is a launch
  /// thread, and therefore must not wait for streams.
  [[nodiscard]] static bool is_in_work() noexcept {
    return current_ || launching_ != nullptr || is_launch_thread_;
  }
  /// Calls `function()`, which destroys an object and may wait for streams: on the calling thread
  /// or, if that thread must not wait (see is_in_work()), on a new thread. If no thread can be
  /// started, writes this to stderr and keeps the object for ever.
  template <class F>
  static void call_outside(F&& function) {
    if (is_in_work()) {
      call_on_new_thread(Closure(std::forward<F>(function)));
    } else {
      std::forward<F>(function)();
    }
  }

 private:
  static void call_on_new_thread(Closure function);

  friend class InsideWork;
  friend class LaunchPool;

  static inline constinit thread_local bool current_ = false;
  static inline constinit thread_local char const* launching_ = nullptr;
  static inline constinit thread_local bool is_launch_thread_ = false;
};

}  // namespace msstream::detail
