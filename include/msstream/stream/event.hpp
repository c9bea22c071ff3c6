// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/stream/detail/any_stream.hpp>

#include <utility>

namespace msstream {

/// An event on a stream: stands for all work that the stream had when it was recorded, and no work
/// issued after record() returned. Copies share the event. Thread-safe.
template <Runtime R = DefaultRuntime>
class Event {
 public:
  explicit Event(detail::AnyEvent body) noexcept : body_(std::move(body)) {}

  /// Returns whether the work is complete, without blocking. Rethrows a failure of the work. While
  /// the work is being captured, throws std::logic_error, as synchronize() does.
  [[nodiscard]] bool query() const { return body_.query(); }
  /// Blocks the host until the work is complete. Rethrows a failure of the work.
  void synchronize() const { body_.synchronize(); }
  [[nodiscard]] order::Position position() const noexcept { return body_.position(); }
  /// Returns the handle of the runtime, such as a cudaEvent_t.
  [[nodiscard]] typename R::native_event native() const noexcept {
    return static_cast<typename R::native_event>(body_.native());
  }
  [[nodiscard]] detail::AnyEvent const& body() const noexcept { return body_; }

 private:
  detail::AnyEvent body_;
};

}  // namespace msstream
