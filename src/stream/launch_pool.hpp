// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"
#include "runtime/driver_calls.hpp"
#include "runtime/settled_at_exit.hpp"
#include "stream/dependency_tracker.hpp"
#include "stream/doorbell.hpp"
#include "stream/launch_failure.hpp"

#include <msstream/base/closure.hpp>
#include <msstream/base/detail/start_thread.hpp>
#include <msstream/order/detail/position_set.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::detail {

/// An operation that waits to be launched by a launch thread. Its number is reserved already.
struct LaunchTask {
  StreamSlot* slot;
  std::uint64_t number;
  order::PositionSet needed;
  Closure work;
  std::shared_ptr<LaunchFailure> failure;
};

struct LaunchPoolOptions {
  int threads = 1;
  /// The time for which a thread without an operation to launch looks for work before it sleeps.
  /// Waking a sleeping thread takes longer than issuing most operations, and delays the issuing
  /// thread.
  std::chrono::microseconds spin{0};
};

/// Threads that launch operations: those of one stream in the order of their numbers, those of
/// different streams concurrently.
///
/// A task is one operation to launch; a line is the queue of one stream's tasks. A task that fails
/// stores its exception in its LaunchFailure, and tasks that follow it are given up until a caller
/// has taken the exception. A task whose predecessors are not launched yet never occupies a thread:
/// its line goes back to the end of the list of lines, so any number of threads, even one, makes
/// progress. The destructor launches the queued tasks. A pool made by make() also lets exit()
/// launch the queued tasks and end the threads before a driver ends.
///
/// States of a thread: launching; if no task can be launched, looking for work for `spin`; then
/// asleep until the pool's doorbell rings. push() rings the doorbell. If a line is blocked because
/// another thread has to launch a task first, that launch rings the doorbell too: before a thread
/// sleeps, it registers the doorbell with the first missing launch of every line (LaunchBells).
///
/// No wake-up is missed. A thread reads the doorbell's count before it looks at the lines, and does
/// not sleep if the doorbell has rung since, which covers pushes. Launches are covered by the order
/// in LaunchBells: the thread registers the doorbell, then checks the launch once more. A ring
/// wakes one thread, which need not be the one that registered the doorbell. Therefore each woken
/// thread looks at all lines, rings again if it takes one and leaves others, and before it sleeps
/// registers the doorbell for all blocked lines, including those put back meanwhile by any thread.
/// Each blocked task causes at most as many wake-ups as it has predecessors.
class LaunchPool {
 public:
  [[nodiscard]] static std::shared_ptr<LaunchPool> make(
      std::shared_ptr<DependencyTracker> const& tracker, LaunchPoolOptions const& options) {
    auto pool = make_at_home<LaunchPool>(tracker->home(), tracker, options);
    settle_at_exit(
        tracker->life(), pool, SettleOrder::threads, [](LaunchPool& ending) { ending.stop(); });
    return pool;
  }
  LaunchPool(std::shared_ptr<DependencyTracker> tracker, LaunchPoolOptions const& options)
      : tracker_(std::move(tracker)), home_(tracker_->life()), spin_(options.spin) {
    try {
      for (int i = 0; i < options.threads; ++i) {
        threads_.push_back(start_thread("launches of a stream pool", [this] { work(); }));
      }
    } catch (...) {  // the system cannot start more threads
      stop();
      throw;
    }
  }
  ~LaunchPool() { stop(); }
  LaunchPool(LaunchPool const&) = delete;
  LaunchPool& operator=(LaunchPool const&) = delete;

  /// Launches the queued tasks and ends the threads. May be called repeatedly, but by one thread
  /// only.
  void stop() {
    {
      std::lock_guard const guard(lock_);
      stopping_.store(true);
    }
    doorbell_.ring_for_all();
    for (auto& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }

  /// Queues a task. Throws std::logic_error after stop(), which exit() calls, because no thread
  /// would launch the task.
  void push(LaunchTask task) {
    {
      std::lock_guard const guard(lock_);
      if (stopping_.load(std::memory_order_relaxed)) [[unlikely]] {
        throw std::logic_error("work for a launch thread after exit() was called");
      }
      Line& line = lines_[task.slot->index];
      if (line.queued) {
        line.later.push_back(std::move(task));
        return;
      }
      line.tasks.push_back(std::move(task));
      try {
        ready_.push_back(&line);
      } catch (...) {
        line.tasks.pop_back();
        throw;
      }
      line.queued = true;
    }
    doorbell_.ring();
  }
  [[nodiscard]] bool is_stopping() const noexcept { return stopping_.load(); }
  /// Returns how many times a thread has started to sleep.
  [[nodiscard]] std::uint64_t sleeps() const noexcept { return doorbell_.sleeps(); }

 private:
  using Clock = std::chrono::steady_clock;

  /// The queue of one stream's tasks. `queued` is true while the line is in ready_ or a thread has
  /// taken it from there; meanwhile push() adds tasks to `later`, and `tasks`, from index `next`
  /// on, belongs to the thread that took the line.
  struct Line {
    std::vector<LaunchTask> tasks;
    std::size_t next = 0;
    std::vector<LaunchTask> later;
    bool queued = false;
  };
  /// A line taken from ready_ whose first task can be launched; `line` is null if there is none.
  struct Found {
    Line* line = nullptr;
    bool others = false;  ///< whether ready_ has other lines
  };

  static constexpr int kPausesBetweenLooks = 8;

  void work() {
    // Marks the thread as a launch thread, so that call_outside() runs destructors on another
    // thread: an operation's work may own the last handle of the pool's groups, whose destructor
    // joins the launch threads.
    RuntimeThread::is_launch_thread_ = true;
    DriverCalls calls(tracker_->life());
    while (true) {
      auto const rung = doorbell_.rung();
      bool const stopping = stopping_.load();
      Found const found = find();
      if (found.line != nullptr) {
        if (found.others) {
          doorbell_.ring();
        }
        launch_tasks_of(*found.line, calls);
      } else if ((stopping && !found.others) || home_.is_left()) {
        return;
      } else if (!watch(rung, found.others)) {
        sleep(rung);
      }
    }
  }

  [[nodiscard]] order::PositionSet const& needed_by(Line const& line) const noexcept {
    return line.tasks[line.next].needed;
  }
  [[nodiscard]] bool launchable(Line const& line) const noexcept {
    return tracker_->launchable(needed_by(line));
  }
  Found find() {
    std::lock_guard const guard(lock_);
    for (auto left = ready_.size(); left != 0; --left) {
      Line* const line = ready_.front();
      ready_.pop_front();
      if (launchable(*line)) {
        return {line, !ready_.empty()};
      }
      ready_.push_back(line);
    }
    return {nullptr, !ready_.empty()};
  }

  /// Looks for work for `spin_`, and returns whether there may be a task to launch. `blocked` says
  /// whether lines wait for launches by other threads.
  bool watch(std::uint64_t rung, bool blocked) {
    if (spin_ == std::chrono::microseconds::zero()) {
      return false;
    }
    Doorbell::Watch const watching(doorbell_);
    for (auto const end = Clock::now() + spin_; Clock::now() < end;) {
      for (int i = 0; i < kPausesBetweenLooks; ++i) {
        relax_processor();
      }
      if (doorbell_.rung() != rung || (blocked && any_launchable())) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] bool any_launchable() {
    std::lock_guard const guard(lock_);
    return std::any_of(
        ready_.begin(), ready_.end(), [this](Line const* line) { return launchable(*line); });
  }

  /// Sleeps until the doorbell has rung since the count `rung`: when a task was pushed, or a
  /// blocked line may have become launchable.
  void sleep(std::uint64_t rung) {
    auto const missing = missing_launches();
    if (!missing) {
      return;
    }
    bool all_missing = true;
    for (auto const& launch : *missing) {
      auto& slot = tracker_->slot(launch.stream);
      all_missing &= slot.bells.add(launch.number, doorbell_, slot.launched);
    }
    if (all_missing) {
      doorbell_.sleep(rung);
    }
    for (auto const& launch : *missing) {
      tracker_->slot(launch.stream).bells.remove(launch.number, doorbell_);
    }
  }
  /// Returns, for each line, the position of the first operation that must be launched before the
  /// line's next task. Returns nothing if one of the lines can be launched.
  [[nodiscard]] std::optional<std::vector<order::Position>> missing_launches() {
    std::vector<order::Position> missing;
    std::lock_guard const guard(lock_);
    for (Line const* const line : ready_) {
      auto const* const first = tracker_->first_to_launch(needed_by(*line));
      if (first == nullptr) {
        return std::nullopt;
      }
      missing.push_back(*first);
    }
    return missing;
  }

  void launch_tasks_of(Line& line, DriverCalls& calls) {
    do {
      DriverCalls::Inside const inside(calls);
      LaunchTask task = std::move(line.tasks[line.next++]);
      launch(task);
    } while (line.next < line.tasks.size() && launchable(line));
    std::lock_guard const guard(lock_);
    if (line.next == line.tasks.size()) {
      line.tasks.clear();
      line.next = 0;
      line.tasks.swap(line.later);
    }
    if (line.tasks.empty()) {
      line.queued = false;
    } else {
      ready_.push_back(&line);
    }
  }
  void launch(LaunchTask& task) noexcept {
    tracker_->launch_if_sound(
        *task.slot, task.number, task.needed, task.work, [&](std::exception_ptr failure) {
          task.failure->keep(std::move(failure));
        });
  }

  std::shared_ptr<DependencyTracker> tracker_;
  HomeProcess home_;
  std::chrono::microseconds spin_;
  SpinLock lock_;  ///< guards the lines
  std::unordered_map<order::StreamIndex, Line> lines_;
  std::deque<Line*> ready_;
  Doorbell doorbell_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace msstream::detail
