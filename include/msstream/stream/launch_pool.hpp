// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/base/spin_lock.hpp>
#include <msstream/base/start_thread.hpp>
#include <msstream/order/position_set.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/runtime/home_process.hpp>
#include <msstream/runtime/settled_at_exit.hpp>
#include <msstream/stream/dependency_tracker.hpp>
#include <msstream/stream/doorbell.hpp>
#include <msstream/stream/launch_failure.hpp>

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

struct LaunchPoolOptions {
  int threads = 1;
  /// How long a thread that has nothing to launch looks for work before it sleeps. Who finds a
  /// sleeping thread pays for waking it, which takes longer than most operations take to issue.
  std::chrono::microseconds spin{0};
};

/// Threads that launch operations: each stream's in the order of their numbers, different streams'
/// beside each other.
///
/// A task that fails tells its LaunchFailure, and tasks that follow it are given up until the
/// caller has taken that. A task whose predecessors are not launched yet never holds a thread: its
/// stream goes back to the end of the line, so any number of threads, also one, makes progress. The
/// destructor launches what is queued. Made by make(), which also has exit() launch what is queued
/// and end the threads before a driver goes.
///
/// States of a thread: it launches; with nothing that can be launched it looks on for `spin`; then
/// it sleeps until the pool's doorbell rings. Who pushes rings it, and while lines are blocked,
/// each waiting for a launch that somebody else has to make, so does that launch: before it sleeps
/// a thread leaves the doorbell with the first missing launch of every line (LaunchBells).
///
/// No wake-up is missed. A thread reads the doorbell's count before it looks at the lines, and does
/// not sleep if it has rung since: that covers pushes. Launches are covered by the order of
/// LaunchBells: left the bell, then looked at the launch once more. A ring wakes one thread, which
/// need not be the one that left the bell: each that has heard a ring looks at all lines, rings
/// again if it goes off with one and leaves others, and before it sleeps leaves the bell for all
/// that are blocked, also those that a thread, itself perhaps, has put back meanwhile. Each blocked
/// task wakes at most as often as it has predecessors.
template <Runtime R>
class LaunchPool {
 public:
  [[nodiscard]] static std::shared_ptr<LaunchPool> make(
      std::shared_ptr<DependencyTracker<R>> const& tracker, LaunchPoolOptions const& options) {
    auto pool = make_at_home<LaunchPool>(HomeProcess(life_of<R>), tracker, options);
    settle_at_exit<R>(pool, SettleOrder::threads, [](LaunchPool& ending) { ending.stop(); });
    return pool;
  }
  LaunchPool(std::shared_ptr<DependencyTracker<R>> tracker, LaunchPoolOptions const& options)
      : tracker_(std::move(tracker)), spin_(options.spin) {
    try {
      for (int i = 0; i < options.threads; ++i) {
        threads_.push_back(start_thread("launches of a stream pool", [this] { work(); }));
      }
    } catch (...) {  // the system has no more threads
      stop();
      throw;
    }
  }
  ~LaunchPool() { stop(); }
  LaunchPool(LaunchPool const&) = delete;
  LaunchPool& operator=(LaunchPool const&) = delete;

  /// Launches what is queued and ends the threads; by one thread, once or more.
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

  /// Throws std::logic_error once stop(), by exit(), was called: nobody would launch the task.
  void push(LaunchTask<R> task) {
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
  /// How often a thread has gone to sleep.
  [[nodiscard]] std::uint64_t sleeps() const noexcept { return doorbell_.sleeps(); }

 private:
  using Clock = std::chrono::steady_clock;

  /// The tasks of one stream. While it is queued, in ready_ or taken from there by a thread, what
  /// is pushed goes to `later`; `tasks`, from `next` on, are whose the line is.
  struct Line {
    std::vector<LaunchTask<R>> tasks;
    std::size_t next = 0;
    std::vector<LaunchTask<R>> later;
    bool queued = false;
  };
  /// A line whose first task can be launched, taken from ready_; null: there is none.
  struct Found {
    Line* line = nullptr;
    bool others = false;  ///< there are other lines in ready_
  };

  static constexpr int kPausesBetweenLooks = 8;

  void work() {
    while (true) {
      auto const rung = doorbell_.rung();
      bool const stopping = stopping_.load();
      Found const found = find();
      if (found.line != nullptr) {
        if (found.others) {
          doorbell_.ring();
        }
        launch_tasks_of(*found.line);
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

  /// Whether there may be something to launch; false: there was nothing for as long as `spin_`.
  /// `blocked`: lines wait for launches by other threads.
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

  /// Until the doorbell has rung since `rung`: a line was pushed, or may have become launchable.
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
  /// What each line waits for first; nothing: one of them waits no more.
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

  void launch_tasks_of(Line& line) {
    do {
      LaunchTask<R> task = std::move(line.tasks[line.next++]);
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
  void launch(LaunchTask<R>& task) noexcept {
    tracker_->launch_if_sound(
        *task.slot, task.number, task.needed, task.work, [&](std::exception_ptr failure) {
          task.failure->keep(std::move(failure));
        });
  }

  HomeProcess home_{life_of<R>};
  std::shared_ptr<DependencyTracker<R>> tracker_;
  std::chrono::microseconds spin_;
  SpinLock lock_;  ///< of the lines
  std::unordered_map<order::StreamIndex, Line> lines_;
  std::deque<Line*> ready_;
  Doorbell doorbell_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

MSSTREAM_COMPILED_ONCE(class LaunchPool<DefaultRuntime>);

}  // namespace msstream
