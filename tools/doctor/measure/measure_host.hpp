// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"

#include <optional>

namespace msstream::doctor {

/// Measurements of the host. An empty member was not measured.
struct HostMeasures {
  double processors = 1;                       ///< that the process may use
  std::optional<double> threads_at_once = {};  ///< threads' worth of work done at once
  std::optional<double> wake_us = {};          ///< from a notify to the thread that waits for it
  std::optional<double> copy_gb_per_s = {};    ///< of one thread, in the memory of the host
  std::optional<double> issue_us = {};  ///< an issue() of an empty operation, on the host runtime
};

/// Each measures one member, in at most some 50 ms on an idle computer.
[[nodiscard]] double measure_threads_at_once(double processors);
[[nodiscard]] double measure_wake_us();
[[nodiscard]] double measure_copy_gb_per_s();
[[nodiscard]] double measure_host_issue_us();

[[nodiscard]] Lines host_measure_lines(HostMeasures const& measures);

}  // namespace msstream::doctor
