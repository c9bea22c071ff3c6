// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>
#include <utility>

namespace msstream {

/// Tells the threads that run streams' work (the host runtime's workers, CUDA's host functions)
/// from the user's: they must not wait for streams, which includes destroying what does.
class RuntimeThread {
 public:
  RuntimeThread() noexcept { current_ = true; }
  ~RuntimeThread() { current_ = false; }
  RuntimeThread(RuntimeThread const&) = delete;
  RuntimeThread& operator=(RuntimeThread const&) = delete;

  [[nodiscard]] static bool is_current() noexcept { return current_; }
  /// The operation that the calling thread is launching, which others may wait for; null: none.
  [[nodiscard]] static char const* launching() noexcept { return launching_; }
  /// Whether the calling thread runs work of a stream, or launches an operation: it must not wait
  /// for streams.
  [[nodiscard]] static bool is_in_work() noexcept { return current_ || launching_ != nullptr; }
  /// Calls `function()`: here, or, when the calling thread is in work, on a thread of its own.
  template <class F>
  static void call_outside(F&& function) {
    if (is_in_work()) {
      std::thread(std::forward<F>(function)).detach();
    } else {
      std::forward<F>(function)();
    }
  }

 private:
  friend class InsideWork;

  static inline constinit thread_local bool current_ = false;
  static inline constinit thread_local char const* launching_ = nullptr;
};

}  // namespace msstream
