// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/hook.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/stream/dependency_tracker.hpp>
#include <msstream/stream/event_pool.hpp>
#include <msstream/stream/launch_failure.hpp>
#include <msstream/stream/placement.hpp>
#include <msstream/stream/span_recorder.hpp>

#include <exception>
#include <memory>
#include <utility>

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
        runtime(std::make_shared<R>(runtime_options)),
        events(std::make_shared<EventPool<R>>(runtime)),
        tracker(std::move(shared_tracker)),
        spans(runtime) {}

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

  LibraryOptions libraries;  ///< of all groups: the bits do not depend on who computes
  std::shared_ptr<R> runtime;
  std::shared_ptr<EventPool<R>> events;
  std::shared_ptr<DependencyTracker<R>> tracker;
  SpanRecorder<R> spans;
  /// How a pool chooses the groups of operations, if one does.
  Hook<Placement<R> const> placement;
  /// Of all groups' launch threads: whoever next issues to the device or waits for it gets it.
  std::shared_ptr<LaunchFailure> launch_failure = std::make_shared<LaunchFailure>();
};

}  // namespace msstream
