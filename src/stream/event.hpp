// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/checker/observed_work.hpp"
#include "stream/stream_context.hpp"

#include <memory>
#include <utility>

namespace msstream::detail {

/// Returns whether the work of the event is complete, without blocking. Rethrows a failure of the
/// work.
[[nodiscard]] inline bool query_event(StreamContext& context, RecordedEvent const& recorded) {
  context.home.require_here();
  context.tracker->refuse_captured(recorded.position, "Event::query");
  OnTrackersAccount const account(context.runtime->traits.observes_order);
  if (!context.runtime->query(recorded.native)) {
    return false;
  }
  context.tracker->note_complete(recorded);
  context.tracker->note_host_follows(recorded.position);
  return true;
}

/// An event that covers all work that a stream had when Stream::record() made the event, and no
/// work that was issued after record() returned. Copies share the native event.
class Event {
 public:
  Event(std::shared_ptr<StreamContext> context, std::shared_ptr<RecordedEvent> recorded)
      : context_(std::move(context)), recorded_(std::move(recorded)) {}

  /// Returns whether the event's work is complete, without blocking. Rethrows a failure of the
  /// work. While the work is being captured, throws std::logic_error, as synchronize() does.
  [[nodiscard]] bool query() const { return query_event(*context_, *recorded_); }
  /// Blocks the host until the event's work is complete. Rethrows a failure of the work.
  void synchronize() const {
    context_->home.require_here();
    InsideWork::refuse_wait("Event::synchronize");
    context_->tracker->refuse_captured(position(), "Event::synchronize");
    OnTrackersAccount const account(context_->runtime->traits.observes_order);
    observe_call(context_->tracker->host_calls, {HostCall::synchronize, position()}, [&] {
      context_->runtime->synchronize(recorded_->native);
    });
    context_->tracker->note_complete(*recorded_);
    context_->tracker->note_host_follows(position());
  }
  [[nodiscard]] order::Position position() const noexcept { return recorded_->position; }
  [[nodiscard]] RecordedEvent const& recorded() const noexcept { return *recorded_; }
  [[nodiscard]] std::shared_ptr<RecordedEvent> const& share_recorded() const noexcept {
    return recorded_;
  }
  [[nodiscard]] DependencyTracker const* tracker() const noexcept {
    return context_->tracker.get();
  }
  [[nodiscard]] NativeEvent native() const noexcept { return recorded_->native; }

 private:
  std::shared_ptr<StreamContext> context_;
  std::shared_ptr<RecordedEvent> recorded_;
};

}  // namespace msstream::detail
