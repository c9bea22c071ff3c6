// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <optional>
#include <string_view>

namespace msstream::overlap {

/// The meaning of the name of a call of CUDA or of AMD's HIP.
struct CallName {
  std::string_view name;  ///< without version: "cudaLaunchKernel" of "cudaLaunchKernel_v7000"
  CallKind kind = CallKind::other;
  bool is_driver = false;             ///< of the driver, such as cuLaunchKernel()
  std::optional<SyncKind> sync = {};  ///< of calls that wait, and of cudaStreamWaitEvent()
};

[[nodiscard]] CallName understand_call(std::string_view name);

}  // namespace msstream::overlap
