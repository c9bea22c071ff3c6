// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::doctor {

using Variables = std::map<std::string, std::string, std::less<>>;

/// The environment variables of the process that concern msstream and CUDA.
struct EnvironmentFacts {
  Variables variables = {};  ///< those that begin with MSSTREAM_, CUDA_, NVIDIA_, NCCL_ or NVTX_
  /// Variables of msstream whose value is refused: the name, and the library's message.
  std::vector<std::pair<std::string, std::string>> refused = {};
};

/// Returns the names of the variables that the library reads, sorted.
[[nodiscard]] std::vector<std::string_view> const& known_variables();

/// Reads the variables of the process. Removes those with refused values from the process's
/// environment, so that measurements run with the defaults. Call it before other threads start.
[[nodiscard]] EnvironmentFacts read_environment();
[[nodiscard]] Lines environment_lines(EnvironmentFacts const& facts);

}  // namespace msstream::doctor
