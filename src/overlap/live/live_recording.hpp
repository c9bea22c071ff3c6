// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/live/host_log.hpp"
#include "overlap/recording/recording.hpp"

#include <msstream/order/position.hpp>
#include <msstream/step/step_trace.hpp>

#include <string>
#include <thread>
#include <vector>

namespace msstream::overlap {

/// The steps that were recorded in the program itself.
struct WatchedSteps {
  StepTrace trace;
  std::vector<order::Position> positions;  ///< of the trace's operations
  std::vector<HostLog::Entry> calls;
  std::vector<double> steps;  ///< when each step began, in the time of the host
  std::thread::id thread;     ///< of the steps
  double begin_ns = 0;        ///< when the recording began, in the time of the host
  double end_ns = 0;          ///< when the last step had been issued
  std::string runtime;        ///< the name of the device's runtime
};

/// Makes a sorted recording, whose time 0 is when the recording began. The clock of the device is
/// aligned with that of the host: no operation begins before its launch.
[[nodiscard]] Recording recording_of(WatchedSteps const& watched);

}  // namespace msstream::overlap
