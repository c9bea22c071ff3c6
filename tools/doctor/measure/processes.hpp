// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"

#include <optional>
#include <string>

namespace msstream::doctor {

/// How many short operations a second are done on one device, by N groups of one process and by N
/// processes.
struct ProcessFacts {
  int processes = 2;                         ///< and groups
  bool is_cuda = false;                      ///< on a GPU; otherwise on the host runtime
  double one_group = 0;                      ///< operations a second of one group
  double groups = 0;                         ///< of N groups of one process, a thread each
  std::optional<double> separate = {};       ///< of N processes in all, without MPS
  std::optional<double> with_mps = {};       ///< of N processes in all, with MPS
  std::string without_mps_reason = {};       ///< why MPS was not tried
  std::string without_separate_reason = {};  ///< why N processes failed without MPS
};

[[nodiscard]] Lines process_lines(ProcessFacts const& facts);

}  // namespace msstream::doctor
