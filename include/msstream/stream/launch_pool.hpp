// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/order/position_set.hpp>
#include <msstream/stream/dependency_tracker.hpp>
#include <msstream/stream/launch_failure.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream {

/// An operation whose number is reserved and whose launch is left to a launch thread.
template <Runtime R>
struct LaunchTask {
  StreamSlot<R>* slot;
  std::uint64_t number;
  order::PositionSet needed;
  Closure work;
  std::shared_ptr<LaunchFailure> failure;
};

/// Threads that launch operations: each stream's in the order of their numbers, different streams'
/// beside each other.
///
/// A task that fails tells its LaunchFailure, and tasks that follow it are given up until the
/// caller has taken that. A task whose predecessors are not launched yet never holds a thread: its
/// stream goes back to the end of the line, so any number of threads, also one, makes progress.
/// Idle threads sleep. The destructor launches what is queued.
template <Runtime R>
class LaunchPool {
 public:
  LaunchPool(std::shared_ptr<DependencyTracker<R>> tracker, int threads)
      : tracker_(std::move(tracker)) {
    try {
      for (int i = 0; i < threads; ++i) {
        threads_.emplace_back([this] { work(); });
      }
    } catch (...) {  // the system has no more threads
      stop();
      throw;
    }
  }
  ~LaunchPool() { stop(); }
  LaunchPool(LaunchPool const&) = delete;
  LaunchPool& operator=(LaunchPool const&) = delete;

  void push(LaunchTask<R> task) {
    {
      std::lock_guard const guard(mutex_);
      Line& line = lines_[task.slot->index];
      line.tasks.push_back(std::move(task));
      if (line.queued) {
        return;
      }
      try {
        ready_.push_back(&line);
      } catch (...) {
        line.tasks.pop_back();
        throw;
      }
      line.queued = true;
    }
    changed_.notify_one();
  }

 private:
  /// The tasks of one stream; `queued` while it is in ready_ or a thread has taken it from there.
  struct Line {
    std::deque<LaunchTask<R>> tasks;
    bool queued = false;
  };

  static constexpr std::chrono::microseconds kRetryAfter{50};

  void stop() {
    {
      std::lock_guard const guard(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) {
      thread.join();
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    std::size_t blocked_in_a_row = 0;
    while (true) {
      changed_.wait(lock, [this] { return !ready_.empty() || stopping_; });
      if (ready_.empty()) {
        return;
      }
      if (blocked_in_a_row >= ready_.size()) {
        // Every line waits for a launch by another thread, which is about to happen.
        changed_.wait_for(lock, kRetryAfter);
        blocked_in_a_row = 0;
        continue;
      }
      Line& line = *ready_.front();
      ready_.pop_front();
      if (!tracker_->launchable(line.tasks.front().needed)) {
        ++blocked_in_a_row;
        ready_.push_back(&line);
        continue;
      }
      blocked_in_a_row = 0;
      {
        LaunchTask<R> task = std::move(line.tasks.front());
        line.tasks.pop_front();
        lock.unlock();
        launch(task);
      }  // what the task holds goes while the pool is free
      lock.lock();
      if (line.tasks.empty()) {
        line.queued = false;
      } else {
        ready_.push_back(&line);
      }
    }
  }

  void launch(LaunchTask<R>& task) noexcept {
    tracker_->launch_if_sound(
        *task.slot, task.number, task.needed, task.work, [&](std::exception_ptr failure) {
          task.failure->keep(std::move(failure));
        });
  }

  std::shared_ptr<DependencyTracker<R>> tracker_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<order::StreamIndex, Line> lines_;
  std::deque<Line*> ready_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace msstream
