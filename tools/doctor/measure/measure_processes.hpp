// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/facts/device.hpp"
#include "doctor/measure/processes.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace msstream::doctor {

/// The measurement of --processes.
struct ProcessPlan {
  int processes = 2;
  int device = -1;  ///< the number of the GPU; -1 for the host runtime
  bool start_mps = false;
  MpsFacts mps = {};
  std::chrono::milliseconds length{500};   ///< of each load
  std::string program = "/proc/self/exe";  ///< what runs as `program worker …`
  /// Returns how many bytes of the device are free, or nothing if that is unknown.
  std::function<std::optional<double>()> free_bytes = [] { return std::optional<double>(); };
};

/// Starts processes of this program, one set after the other, and returns what they did. Calls
/// `begin` with the name of each measurement. With `start_mps`, starts a daemon of MPS with folders
/// of its own, and ends it, also if this process is killed. Throws std::runtime_error if the
/// single process fails; a failure of several ones is a fact.
[[nodiscard]] ProcessFacts measure_processes(ProcessPlan const& plan,
                                             std::function<void(std::string_view)> const& begin);

}  // namespace msstream::doctor
