// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::doctor {

/// Measurements of the host. An empty member was not measured: `failures` says why.
struct HostMeasures {
  double processors = 1;                       ///< that the process may use
  std::optional<double> threads_at_once = {};  ///< threads' worth of work done at once
  std::optional<double> wake_us = {};          ///< from a notify to the thread that waits for it
  std::optional<double> copy_gb_per_s = {};    ///< of one thread, in the memory of the host
  std::optional<double> issue_us = {};  ///< an issue() of an empty operation, on the host runtime
  struct Failure {
    std::string id;
    std::string thing;
    std::string message;
  };
  std::vector<Failure> failures = {};
};

/// Each measures one member, in at most some 50 ms on an idle computer.
[[nodiscard]] double measure_threads_at_once(double processors);
[[nodiscard]] double measure_wake_us();
[[nodiscard]] double measure_copy_gb_per_s();
[[nodiscard]] double measure_host_issue_us();

/// Measures all members. Calls `begin` with the name of each measurement. One that fails, such as
/// under a limit of threads or memory, does not keep the others back.
[[nodiscard]] HostMeasures measure_host(double processors,
                                        std::function<void(std::string_view)> const& begin);
[[nodiscard]] Lines host_measure_lines(HostMeasures const& measures);

}  // namespace msstream::doctor
