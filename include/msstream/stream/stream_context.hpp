// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/hook.hpp>
#include <msstream/base/unheard_failure.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/runtime/home_process.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/stream/dependency_tracker.hpp>
#include <msstream/stream/event_pool.hpp>
#include <msstream/stream/launch_failure.hpp>
#include <msstream/stream/placement.hpp>
#include <msstream/stream/span_recorder.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream {

/// What all streams of one device share: the runtime, its events, the tracker (which devices may
/// share) and the spans. Everything that needs a part of it owns the whole, so no part can go too
/// early.
template <Runtime R = DefaultRuntime>
struct StreamContext {
  StreamContext(typename R::Options const& runtime_options,
                std::shared_ptr<DependencyTracker<R>> shared_tracker,
                LibraryOptions const& of_groups = {})
      : libraries(of_groups),
        runtime(make_at_home<R>(home, runtime_options)),
        events(std::make_shared<EventPool<R>>(runtime)),
        tracker(std::move(shared_tracker)),
        spans(runtime) {}

  StreamContext(StreamContext const&) = delete;
  StreamContext& operator=(StreamContext const&) = delete;
  ~StreamContext() { log_unheard(); }

  /// Called whenever the host has waited for a group of the device, or for it through a tensor; may
  /// throw what the device has reported.
  void add_check(std::function<void()> check) {
    std::lock_guard const guard(checks_mutex_);
    checks_.push_back(std::move(check));
  }
  /// Throws what failed on a launch thread, and what a check throws.
  void run_checks() {
    rethrow_launch_failure();
    std::lock_guard const guard(checks_mutex_);
    for (auto const& check : checks_) {
      check();
    }
  }
  /// Writes what run_checks() would throw to the log, all of it; the checks are over.
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
  /// Before the driver ends: waits for all work, and writes failures that no call has thrown to the
  /// log.
  void settle() noexcept {
    for (auto const& newest : tracker->newest_positions()) {
      tracker->finish(newest);
    }
    end_checks();
  }

  /// Throws what failed on a launch thread, once all that was issued before is launched or given up
  /// on its account: what is issued next runs. Costs a load when there is nothing.
  void rethrow_launch_failure() {
    if (launch_failure->present()) [[unlikely]] {
      tracker->forget_failures();
      launch_failure->rethrow();
    }
  }

  /// Throws `failure`, which a caller's operation follows, unless it is null. It may be another
  /// device's, or somebody else may have taken it: the operation was not launched all the same.
  /// What is issued next runs.
  void rethrow(std::exception_ptr const& failure) {
    if (failure != nullptr) [[unlikely]] {
      rethrow_launch_failure();
      tracker->forget_failures();
      std::rethrow_exception(failure);
    }
  }

  /// Whoever may block, lock, or call the driver asks it first.
  HomeProcess home{life_of<R>};
  LibraryOptions libraries;  ///< of all groups: the bits do not depend on who computes
  std::shared_ptr<R> runtime;
  std::shared_ptr<EventPool<R>> events;
  std::shared_ptr<DependencyTracker<R>> tracker;
  SpanRecorder<R> spans;
  /// How a pool chooses the groups of operations, if one does.
  Hook<Placement<R> const> placement;
  /// Of all groups' launch threads: whoever next issues to the device or waits for it gets it.
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

MSSTREAM_COMPILED_ONCE(struct StreamContext<DefaultRuntime>);

}  // namespace msstream
