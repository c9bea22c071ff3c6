// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/any_device.hpp>
#include <msstream/step/step_trace.hpp>
#include <msstream/stream/span_timing.hpp>

#include <memory>

namespace msstream::detail {

/// A guard during whose lifetime the operations of a device are recorded and timed.
class StepRecording {
 public:
  /// Blocks the host until all earlier work is complete, and begins. Throws std::logic_error in the
  /// cases in which record_step() does. The device must outlive the guard.
  StepRecording(AnyDevice const& device, SpanTiming timing);
  StepRecording(StepRecording const&) = delete;
  StepRecording& operator=(StepRecording const&) = delete;
  ~StepRecording();

  /// Ends the recording, blocks the host until all work is complete, and returns what was recorded.
  [[nodiscard]] StepTrace finish();

 private:
  class State;
  std::unique_ptr<State> const state_;
};

}  // namespace msstream::detail
