// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace msstream::doctor {

/// Watches that no check hangs, such as a call of a driver that does not answer. If a check does
/// not end within the limit, calls `expired` with its name, once, on a thread of its own: the
/// thread of the check may never return.
///
/// If the thread cannot start, such as under a limit of threads, watches nothing: problem() says
/// why.
///
/// States: idle, then a check runs from each begin() to the next one or to end(). The mutex
/// protects all members. `expired` runs without the mutex.
class TimeLimit {
 public:
  TimeLimit(std::chrono::milliseconds limit, std::function<void(std::string const& check)> expired);
  TimeLimit(TimeLimit const&) = delete;
  TimeLimit& operator=(TimeLimit const&) = delete;
  /// Ends the watch. If `expired` runs, blocks until it returns.
  ~TimeLimit();

  /// Why nothing is watched; empty otherwise.
  [[nodiscard]] std::string const& problem() const noexcept { return problem_; }
  /// Ends the check that runs, and begins the named one.
  void begin(std::string_view check);
  /// Ends the check that runs.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void watch();

  std::chrono::milliseconds limit_;
  std::function<void(std::string const&)> expired_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string check_;  ///< empty while none runs
  Clock::time_point began_;
  bool is_over_ = false;
  std::string problem_;
  std::thread thread_;  ///< uses all other members
};

}  // namespace msstream::doctor
