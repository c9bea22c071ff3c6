// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/stream/stream_context.hpp>

#include <memory>
#include <utility>

namespace msstream {

/// Represents all work that a stream had when Stream::record() made the event, and no work that was
/// issued after record() returned. Copies share the event.
template <Runtime R = DefaultRuntime>
class Event {
 public:
  Event(std::shared_ptr<StreamContext<R>> context, std::shared_ptr<RecordedEvent<R>> recorded)
      : context_(std::move(context)), recorded_(std::move(recorded)) {}

  /// Returns whether the work is complete, without blocking. Rethrows a failure of the work. While
  /// the work is being captured, throws std::logic_error, as synchronize() does.
  [[nodiscard]] bool query() const {
    context_->home.require_here();
    context_->tracker->refuse_captured(position(), "Event::query");
    observe::OnTrackersAccount<R> const account;
    if (!context_->runtime->query(recorded_->native)) {
      return false;
    }
    context_->tracker->note_complete(*recorded_);
    context_->tracker->note_host_follows(position());
    return true;
  }
  /// Blocks the host until the work is complete. Rethrows a failure of the work.
  void synchronize() const {
    context_->home.require_here();
    InsideWork::refuse_wait("Event::synchronize");
    context_->tracker->refuse_captured(position(), "Event::synchronize");
    observe::OnTrackersAccount<R> const account;
    context_->runtime->synchronize(recorded_->native);
    context_->tracker->note_complete(*recorded_);
    context_->tracker->note_host_follows(position());
  }
  [[nodiscard]] order::Position position() const noexcept { return recorded_->position; }
  [[nodiscard]] RecordedEvent<R> const& recorded() const noexcept { return *recorded_; }
  [[nodiscard]] DependencyTracker<R> const* tracker() const noexcept {
    return context_->tracker.get();
  }
  [[nodiscard]] typename R::native_event native() const noexcept { return recorded_->native; }

 private:
  std::shared_ptr<StreamContext<R>> context_;
  std::shared_ptr<RecordedEvent<R>> recorded_;
};

}  // namespace msstream
