// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <atomic>
#include <thread>

namespace msstream::detail {

/// The calls of a driver by one of the library's own threads. fork() waits until none of these
/// threads is inside such calls.
///
/// A thread may hold a lock of the driver during a call, for example while the first launch of a
/// kernel loads its module. If another thread calls fork() then, the child has a copy of the lock
/// that no thread releases, and the handlers that the driver has registered for exit() wait for it
/// forever. The library's threads make their calls unknown to the program, so the program cannot
/// avoid this. It can for its own threads.
///
/// fork() waits at most one second for each thread: the work of an operation, which such a thread
/// runs, may itself wait for the thread that calls fork().
class DriverCalls {
 public:
  /// Registers the calling thread, which must destroy the object. Does nothing for a runtime
  /// without a driver.
  explicit DriverCalls(RuntimeLife life) noexcept;
  ~DriverCalls();
  DriverCalls(DriverCalls const&) = delete;
  DriverCalls& operator=(DriverCalls const&) = delete;

  /// The thread is inside calls while the guard lives. The constructor waits while a fork() takes
  /// place. Guards do not nest.
  class Inside {
   public:
    explicit Inside(DriverCalls& calls) noexcept : calls_(calls) {
      // Both this thread and fork() write their own flag before they read the other's
      // (sequentially consistent), so at least one of them sees the other.
      if (calls_.is_registered_) {
        calls_.is_inside_.store(true);
        while (is_forking_.load())
          [[unlikely]] {
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

  /// Returns whether a thread is inside fork(): for tests.
  [[nodiscard]] static bool is_forking() noexcept { return is_forking_.load(); }

 private:
  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;

  /// Leaves the calls until the fork() is over, and enters them again.
  void wait_for_fork() noexcept;

  static constinit inline std::atomic<bool> is_forking_{false};

  std::thread::id const thread_ = std::this_thread::get_id();
  bool const is_registered_;
  std::atomic<bool> is_inside_{false};
  DriverCalls* next_ = nullptr;  ///< the next registered thread
};

}  // namespace msstream::detail
