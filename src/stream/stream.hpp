// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/event.hpp"
#include "stream/stream_context.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/runtime/partitioning.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

namespace msstream::detail {

/// Owns a stream of the runtime and its slot in the tracker. Thread-safe. The destructor does not
/// block if work is in flight: the work still runs, and dependent work still waits for it.
///
/// States: open; closed permanently, after close().
class Stream {
 public:
  explicit Stream(std::shared_ptr<StreamContext> context,
                  StreamPriority priority = StreamPriority::normal,
                  StreamIdentity identity = {},
                  StreamSlot::Capture* capture = nullptr,
                  SmPartition partition = {})
      : context_(std::move(context)),
        native_(context_->runtime->create_stream(priority, partition)),
        slot_(attach(std::move(identity), capture)) {}
  ~Stream() { close(); }
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;

  /// Releases the native stream and the slot, as the destructor does. No other thread may be inside
  /// a call. Later calls that need the native stream or the slot throw std::logic_error. Does
  /// nothing in a child of fork(), or after the driver has ended.
  void close() {
    auto* const slot = std::exchange(slot_, nullptr);
    if (slot != nullptr && !context_->home.is_left()) {
      context_->tracker->detach(*slot);
      context_->runtime->destroy_stream(std::exchange(native_, {}));
    }
  }

  /// Records an event on the stream, and returns it. The event covers all work issued to the stream
  /// so far, including work put directly on native().
  [[nodiscard]] Event record() { return {context_, context_->tracker->event_at(mark())}; }
  /// Makes the stream's next work wait for the event's work, unless the order is known to hold
  /// already. Does not block the host. Throws std::invalid_argument for an event of a device that
  /// does not share the stream's dependency tracker.
  void wait(Event const& event) { wait(event.tracker(), event.recorded()); }
  /// Waits as wait(Event) does, for an event of the dependency tracker `tracker`.
  void wait(DependencyTracker const* tracker, RecordedEvent const& event) {
    require(tracker == context_->tracker.get(),
            "Stream::wait: the event is of a device with another tracker; DeviceOptions::tracker "
            "lets devices share one");
    auto& self = slot();
    context_->tracker->while_idle(self, [&] { context_->tracker->order_after(self, event); });
  }
  /// Makes the stream's next work follow positions of its dependency tracker. First blocks the host
  /// until their operations are launched. Then rethrows a failure on a launch thread that precedes
  /// them.
  void follow(order::PositionSet const& needed) {
    auto& self = slot();
    context_->tracker->while_idle(self, [&] {
      auto waits = needed;
      context_->tracker->order_after(self, waits);
    });
    context_->rethrow(context_->tracker->failure_behind(needed));
  }
  /// Blocks the host until all work issued to the stream so far is complete. Rethrows a failure of
  /// the work.
  void synchronize() {
    InsideWork::refuse_wait("Stream::synchronize");
    record().synchronize();
  }

  /// Returns a new position that covers all work put on the stream so far.
  order::Position mark() {
    return mark([](order::Position) {});
  }
  /// Returns a new position that covers all work put on the stream so far. Calls `note(position)`
  /// before anything else can be issued to the stream.
  template <class Note>
  order::Position mark(Note&& note) {
    order::Position position;
    auto& self = slot();
    context_->tracker->while_idle(self, [&] {
      position = context_->tracker->advance(self);
      std::forward<Note>(note)(position);
    });
    return position;
  }

  [[nodiscard]] NativeStream native() const noexcept { return native_; }
  [[nodiscard]] bool closed() const noexcept { return slot_ == nullptr; }
  [[nodiscard]] StreamSlot& slot() const {
    if (slot_ == nullptr) [[unlikely]] {
      throw std::logic_error("a stream is used after the capture that it was made for");
    }
    return *slot_;
  }
  [[nodiscard]] std::shared_ptr<StreamContext> const& context() const noexcept { return context_; }

 private:
  StreamSlot* attach(StreamIdentity identity, StreamSlot::Capture* capture) {
    try {
      return &context_->tracker->attach(native_, context_->events, std::move(identity), capture);
    } catch (...) {
      context_->runtime->destroy_stream(native_);
      throw;
    }
  }

  std::shared_ptr<StreamContext> context_;
  NativeStream native_;
  StreamSlot* slot_;
};

}  // namespace msstream::detail
