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
  /// Calls `function()`: here, or, when this is a runtime's thread, on a thread of its own.
  template <class F>
  static void call_outside(F&& function) {
    if (current_) {
      std::thread(std::forward<F>(function)).detach();
    } else {
      std::forward<F>(function)();
    }
  }

 private:
  static inline thread_local bool current_ = false;
};

}  // namespace msstream
