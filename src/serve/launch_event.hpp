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

/// An optional event that tells when the work of a launch is complete. Not synchronised.
class LaunchEvent {
 public:
  /// Returns whether there is an event.
  [[nodiscard]] explicit operator bool() const noexcept { return recorded_ != nullptr; }
  /// Holds the event of the operation at `position`, which is recorded if it does not exist yet.
  /// Holds none if the operation is known to be complete.
  void take(detail::StreamContext& context, order::Position position);
  /// Holds a new event for all work issued to the stream group so far.
  void take_all_of(detail::StreamGroup& group);
  void reset() noexcept { recorded_.reset(); }

  /// Returns whether the work before the event is complete. Does not block. There must be an event.
  /// Rethrows a failure of the work.
  [[nodiscard]] bool query(std::shared_ptr<detail::StreamContext> const& context) const;

 private:
  std::shared_ptr<detail::RecordedEvent> recorded_;
};

}  // namespace msstream::serve
