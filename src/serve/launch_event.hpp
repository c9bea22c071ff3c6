// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/position.hpp>

#include <memory>

namespace msstream::detail {

struct RecordedEvent;
struct StreamContext;
class StreamGroup;

}  // namespace msstream::detail

namespace msstream::serve {

/// The event of a launch, if there is one. Not synchronised.
class LaunchEvent {
 public:
  /// Whether there is an event.
  [[nodiscard]] explicit operator bool() const noexcept { return recorded_ != nullptr; }
  /// Takes the event of `position`, which is recorded if needed. Takes none if the work is known to
  /// be complete.
  void take(detail::StreamContext& context, order::Position position);
  /// Records an event for all work that the group has been given so far.
  void take_all_of(detail::StreamGroup& group);
  void reset() noexcept { recorded_.reset(); }

  /// Returns whether the event's work is complete, without blocking. There must be an event.
  /// Rethrows a failure of the work.
  [[nodiscard]] bool query(std::shared_ptr<detail::StreamContext> const& context) const;

 private:
  std::shared_ptr<detail::RecordedEvent> recorded_;
};

}  // namespace msstream::serve
