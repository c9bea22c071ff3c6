// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/stream/detail/any_stream.hpp>

#include <concepts>
#include <memory>
#include <utility>

namespace msstream {

/// An event on a stream: covers all work that the stream had when the event was recorded, and no
/// work issued after record() returned. Copies share the event. Thread-safe.
template <Runtime R = DefaultRuntime>
class Event {
 public:
  explicit Event(detail::AnyEvent body) noexcept : body_(std::move(body)) {}

  /// Returns whether the work that the event covers is complete, without blocking. Rethrows a
  /// failure of the work. While the work is being captured, throws std::logic_error, as
  /// synchronize() does.
  [[nodiscard]] bool query() const { return body_.query(); }
  /// Blocks the host until the work that the event covers is complete. Rethrows a failure of the
  /// work.
  void synchronize() const { body_.synchronize(); }
  /// Returns the place on its stream that the event marks.
  [[nodiscard]] order::Position position() const noexcept { return body_.position(); }
  /// Returns the runtime's native handle of the event, such as a cudaEvent_t.
  [[nodiscard]] typename R::native_event native() const noexcept {
    return static_cast<typename R::native_event>(body_.native());
  }
  [[nodiscard]] detail::AnyEvent const& body() const noexcept { return body_; }

 private:
  detail::AnyEvent body_;
};

/// A Device<R>. The concept replaces the type in this header, which does not include Device.
template <class D, class R>
concept DeviceOf = Runtime<R> && std::same_as<typename D::runtime_type, R> &&
    requires(D const& device) {
  { device.context() } -> std::convertible_to<std::shared_ptr<detail::StreamContext>>;
};

/// A stream of a device. Copies refer to the same stream. Thread-safe. Dropping the last handle of
/// a stream that belongs to no group does not block if work is in flight: the work still runs, and
/// dependent work still waits for it. A stream of a group keeps the group; dropping the group's
/// last handle waits for the group's work.
template <Runtime R = DefaultRuntime>
class Stream {
 public:
  using runtime_type = R;

  /// Makes a new stream that belongs to no stream group.
  template <DeviceOf<R> D>
  explicit Stream(D const& device, StreamPriority priority = StreamPriority::normal)
      : body_(device.context(), priority) {}
  /// Makes a handle to an existing stream. For use by the library only. Throws
  /// std::invalid_argument if the stream's runtime type is not R.
  explicit Stream(detail::AnyStream body) : body_(std::move(body)) {
    static_cast<void>(detail::runtime_of<R>(body_.backend()));
  }

  /// Records an event on the stream, and returns it. The event covers all work issued to the stream
  /// so far, including work put directly on native().
  [[nodiscard]] Event<R> record() const { return Event<R>(body_.record()); }
  /// Makes the stream's next work wait for the work that the event covers, unless the order is
  /// known to hold already. Does not block the host. Throws std::invalid_argument for an event of a
  /// device that does not share the stream's dependency tracker.
  void wait(Event<R> const& event) const { body_.wait(event.body()); }
  /// Blocks the host until all work issued to the stream so far is complete. Rethrows a failure of
  /// the work.
  void synchronize() const { body_.synchronize(); }
  /// Returns the runtime's native handle of the stream, such as a cudaStream_t.
  [[nodiscard]] typename R::native_stream native() const noexcept {
    return static_cast<typename R::native_stream>(body_.native());
  }

  [[nodiscard]] detail::AnyStream const& body() const noexcept { return body_; }
  [[nodiscard]] detail::Stream& engine() const noexcept { return *body_.engine(); }

 private:
  detail::AnyStream body_;
};

template <class D>
Stream(D const&) -> Stream<typename D::runtime_type>;
template <class D>
Stream(D const&, StreamPriority) -> Stream<typename D::runtime_type>;

}  // namespace msstream
