// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/hook.hpp"
#include "base/unheard_failure.hpp"
#include "stream/dependency_tracker.hpp"
#include "stream/event_pool.hpp"
#include "stream/launch_failure.hpp"
#include "stream/placement.hpp"
#include "stream/span_recorder.hpp"
#include "stream/span_waits.hpp"

#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/runtime/runtime.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The state that all streams of one device share: the runtime, its events, the dependency tracker
/// (which several devices may share) and the recorded spans. Objects that need one part own the
/// whole context, so no part is destroyed too early.
struct StreamContext {
  StreamContext(std::shared_ptr<Backend> of,
                std::shared_ptr<DependencyTracker> shared_tracker,
                LibraryOptions const& of_groups = {})
      : home(of->traits.life),
        libraries(of_groups),
        runtime(std::move(of)),
        events(std::make_shared<EventPool>(runtime)),
        tracker(std::move(shared_tracker)),
        spans(runtime),
        span_waits(tracker) {
    tracker->serve(runtime->traits);
  }

  StreamContext(StreamContext const&) = delete;
  StreamContext& operator=(StreamContext const&) = delete;
  ~StreamContext() { log_unheard(); }

  /// Adds a check, which is called whenever the host has waited for a group of the device, or for
  /// the device through a tensor. The check may throw an error that the device has reported.
  void add_check(std::function<void()> check) {
    std::lock_guard const guard(checks_mutex_);
    checks_.push_back(std::move(check));
  }
  /// Throws a failure from a launch thread, or the exception of a check.
  void run_checks() {
    rethrow_launch_failure();
    std::lock_guard const guard(checks_mutex_);
    for (auto const& check : checks_) {
      check();
    }
  }
  /// Writes every failure that run_checks() would throw to the log, and removes the checks.
  void end_checks() noexcept {
    log_unheard();
    std::lock_guard const guard(checks_mutex_);
    for (auto const& check : checks_) {
      try {
        check();
      } catch (...) {
        UnheardFailure::log("work on a device", std::current_exception());
      }
    }
    checks_.clear();
  }
  /// Blocks the host until all work is complete, and writes failures that no call has thrown to the
  /// log. Called before the driver ends.
  void settle() noexcept {
    for (auto const& newest : tracker->newest_positions()) {
      tracker->finish(newest);
    }
    end_checks();
  }

  /// If there is a failure from a launch thread, waits until all work issued before is launched or
  /// given up, and throws the failure. Work issued afterwards runs normally. Costs one load if
  /// there is no failure.
  void rethrow_launch_failure() {
    if (launch_failure->present()) [[unlikely]] {
      tracker->forget_failures();
      launch_failure->rethrow();
    }
  }

  /// Throws `failure` unless it is null. The caller's operation was not launched, because it
  /// depends on the operation that failed, possibly on another device; another caller may have
  /// taken the failure already. Work issued afterwards runs normally.
  void rethrow(std::exception_ptr const& failure) {
    if (failure != nullptr) [[unlikely]] {
      rethrow_launch_failure();
      tracker->forget_failures();
      std::rethrow_exception(failure);
    }
  }

  /// Tells whether the process is a child of fork() or the driver has ended. Must be checked before
  /// any call that may block, lock, or call the driver.
  HomeProcess home;
  LibraryOptions libraries;  ///< options of all groups, so that results do not depend on the group
  std::shared_ptr<Backend> runtime;
  std::shared_ptr<EventPool> events;
  std::shared_ptr<DependencyTracker> tracker;
  SpanRecorder spans;
  SpanWaits span_waits;  ///< the waits of a timeline, while Device::start_spans() is on
  /// The placement that chooses the groups of operations, if a stream pool has one.
  Hook<Placement const> placement;
  /// The first failure of the launch threads of all groups. The next call that issues to the device
  /// or waits for the device throws it.
  std::shared_ptr<LaunchFailure> launch_failure = std::make_shared<LaunchFailure>();

 private:
  void log_unheard() noexcept {
    try {
      launch_failure->rethrow();
    } catch (...) {
      UnheardFailure::log("work given to a launch thread", std::current_exception());
    }
  }

  std::mutex checks_mutex_;
  std::vector<std::function<void()>> checks_;
};

}  // namespace msstream::detail
