// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <atomic>
#include <chrono>
#include <thread>

namespace msstream::detail {

/// Registers one of the library's own threads that calls a driver, and marks when the thread is
/// inside calls of the driver. fork() waits until no registered thread is inside such a call.
///
/// A thread may hold a lock of the driver during a call, for example while the first launch of a
/// kernel loads its module. If another thread calls fork() then, the child has a copy of the lock
/// that no thread releases, and the handlers that the driver has registered for exit() wait for it
/// forever. A program can avoid fork() during calls of its own threads, but it does not know when
/// the library's threads call the driver.
///
/// fork() waits at most one second: the work of an operation, which a registered thread runs, may
/// itself wait for the thread that calls fork().
class DriverCalls {
 public:
  /// Registers the calling thread, which must also destroy the object. Does nothing for a runtime
  /// without a driver.
  explicit DriverCalls(RuntimeLife life) noexcept;
  ~DriverCalls();
  DriverCalls(DriverCalls const&) = delete;
  DriverCalls& operator=(DriverCalls const&) = delete;

  /// A guard. While it lives, the calling thread is marked as inside calls of the driver. The
  /// constructor waits while a fork() is in progress. Guards do not nest.
  class Inside {
   public:
    explicit Inside(DriverCalls& calls) noexcept : calls_(calls) {
      // A registered thread and a thread in fork() each write their own flag before they read the
      // other thread's flag (sequentially consistent), so at least one of them sees the other.
      if (calls_.is_registered_) {
        calls_.is_inside_.store(true);
        while (is_forking_.load()) {
          calls_.wait_for_fork();
        }
      }
    }
    ~Inside() { calls_.is_inside_.store(false, std::memory_order_release); }
    Inside(Inside const&) = delete;
    Inside& operator=(Inside const&) = delete;

   private:
    DriverCalls& calls_;
  };

  /// Returns whether a thread is inside fork() while other threads are registered. For tests.
  [[nodiscard]] static bool is_forking() noexcept { return is_forking_.load(); }
  /// Changes the longest time for which fork() waits. For tests.
  static void set_longest_wait(std::chrono::milliseconds longest) noexcept;

 private:
  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;

  /// Marks the thread as outside all calls of the driver until the fork() in progress is over, and
  /// then as inside again.
  void wait_for_fork() noexcept;

  static constinit inline std::atomic<bool> is_forking_{false};

  std::thread::id const thread_ = std::this_thread::get_id();
  bool const is_registered_;
  std::atomic<bool> is_inside_{false};
  DriverCalls* next_ = nullptr;  ///< the next registered thread
};

}  // namespace msstream::detail
