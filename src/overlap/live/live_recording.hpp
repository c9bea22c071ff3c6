// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/live/host_log.hpp"
#include "overlap/live/program_trace.hpp"
#include "overlap/recording/recording.hpp"

#include <msstream/order/position.hpp>
#include <msstream/step/step_trace.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace msstream::overlap {

/// The steps that were recorded in the program itself.
struct WatchedSteps {
  StepTrace trace;
  std::vector<order::Position> positions;  ///< of the trace's operations
  std::vector<HostLog::Entry> calls;
  std::vector<double> steps;       ///< when each step began, in the time of the host
  std::thread::id thread;          ///< of the steps
  std::int64_t system_thread = 0;  ///< the system's number of it
  double begin_ns = 0;             ///< when the recording began, in the time of the host
  double end_ns = 0;               ///< when the last step had been issued
  std::string runtime;             ///< the name of the device's runtime
  std::string why_no_cupti;  ///< why the times are not CUPTI's; empty if nobody asked for that
};

/// Makes a sorted recording, whose time 0 is when the recording began. The clock of the device is
/// aligned with that of the host: no operation begins before its launch.
[[nodiscard]] Recording recording_of(WatchedSteps const& watched);
/// Makes a sorted recording of what CUPTI traced in the steps, which need no times of their own.
[[nodiscard]] Recording recording_of(WatchedSteps const& watched, Traced traced);

/// Adds a range for each step to a recording, in whose time `time_of` writes the host's.
void add_steps(WatchedSteps const& watched,
               Index thread,
               Recording& recording,
               std::function<Ns(double)> const& time_of);

}  // namespace msstream::overlap
