// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/step/detail/step_recording.hpp>
#include <msstream/step/step_trace.hpp>

#include <utility>

namespace msstream {

/// Runs `step`, which issues the operations of one step to the device as usual, and returns these
/// operations, their dependencies and their times.
///
/// Blocks the host until all earlier work is complete, and again until the step is complete.
/// Meanwhile the operations that any thread issues to the device are recorded. Operations are
/// issued one at a time, and each needs two timed events. All memory that operations use stays
/// allocated, so that no operation depends on another one only because the allocator reused memory;
/// the step therefore needs as much memory as if it freed none.
///
/// With SpanTiming::held operations run one at a time, and their times are not affected by other
/// work, as predict() needs them; SpanTiming describes what cannot be recorded in this way. With
/// SpanTiming::as_issued the trace shows the step as it is issued; the time of a short operation on
/// an idle device then includes its launch by the host.
///
/// Captured operations run later and are not recorded; a replay is one operation. Raw memory
/// belongs to no tensor and gives no dependencies. Throws what `step` throws, and std::logic_error
/// while another recording of the device is in progress, while its spans are recorded, and inside a
/// capture of the device.
template <Runtime R, class Step>
[[nodiscard]] StepTrace record_step(Device<R> const& device,
                                    Step&& step,
                                    SpanTiming timing = SpanTiming::held) {
  detail::StepRecording recording(device.engine(), timing);
  std::forward<Step>(step)();
  return recording.finish();
}

}  // namespace msstream
