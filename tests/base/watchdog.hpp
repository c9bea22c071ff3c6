// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace msstream::testing {

/// Ends the program with a message if the watchdog lives longer than its limit, so that a hang
/// becomes a failure that says where. The default limit is far beyond the duration of any test on a
/// busy machine, and below ctest's limit.
class Watchdog {
 public:
  explicit Watchdog(
      std::function<std::string()> describe,
      std::chrono::milliseconds limit = std::chrono::minutes(5),
      std::function<void()> bark = [] { std::abort(); })
      : thread_([this, describe = std::move(describe), limit, bark = std::move(bark)] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, limit, [this] { return over_; })) {
            std::cerr << "hangs: " << describe() << std::endl;
            bark();
          }
        }) {}
  ~Watchdog() {
    {
      std::lock_guard const guard(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Watchdog(Watchdog const&) = delete;
  Watchdog& operator=(Watchdog const&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace msstream::testing
