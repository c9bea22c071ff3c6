// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"
#include "doctor/measure/operation_rate.hpp"

#include <optional>
#include <string>

namespace msstream::doctor {

/// The rates and the memory of a set of processes on one device, all processes together.
struct ProcessSet {
  LoadRate launches = {};            ///< of operations that do nothing, in batches
  LoadRate kernels = {};             ///< of kernels of kKernelOfLoad, each waited for
  double first_ms = 0;               ///< until the slowest process had done its first operation
  std::optional<double> bytes = {};  ///< of the device that the set takes; empty if unknown
};

/// How much N groups of one process and N processes do on one device.
struct ProcessFacts {
  int processes = 2;                         ///< and groups
  bool is_cuda = false;                      ///< on a GPU; otherwise on the host runtime
  ProcessSet one_group = {};                 ///< one process with one group
  ProcessSet groups = {};                    ///< one process with N groups, a thread each
  std::optional<ProcessSet> separate = {};   ///< N processes without MPS
  std::optional<ProcessSet> with_mps = {};   ///< N processes with MPS
  std::string without_mps_reason = {};       ///< why MPS was not tried
  std::string without_separate_reason = {};  ///< why N processes failed without MPS
};

[[nodiscard]] Lines process_lines(ProcessFacts const& facts);

}  // namespace msstream::doctor
