// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/any_device.hpp>
#include <msstream/order/position.hpp>
#include <msstream/step/step_trace.hpp>
#include <msstream/stream/span_timing.hpp>

#include <memory>
#include <vector>

namespace msstream::detail {

/// A guard that records the operations of a device while it lives, and times them.
class StepRecording {
 public:
  /// Blocks the host until all earlier work is complete, and begins to record. Throws
  /// std::logic_error if record_step() would, for example inside a capture. The device must outlive
  /// the guard.
  StepRecording(AnyDevice const& device, SpanTiming timing);
  /// Begins to record in the same way, but takes no times: they are 0 in finish()'s trace.
  explicit StepRecording(AnyDevice const& device);
  StepRecording(StepRecording const&) = delete;
  StepRecording& operator=(StepRecording const&) = delete;
  ~StepRecording();

  /// Ends the recording, blocks the host until all work is complete, and returns the recorded
  /// operations.
  [[nodiscard]] StepTrace finish();
  /// Returns the positions of the operations of finish()'s trace, in their order.
  [[nodiscard]] std::vector<order::Position> const& positions() const noexcept;

 private:
  class State;
  std::unique_ptr<State> const state_;
};

}  // namespace msstream::detail
