// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/record/happening.hpp"

#include <cuda.h>

#include <optional>
#include <vector>

namespace msstream::overlap::record {

struct DriverFacts {
  int version = 0;  ///< 0 without a driver
  std::vector<DeviceFacts> devices;
};

/// Asks the driver for its devices; empty while it is not initialised.
[[nodiscard]] std::optional<DriverFacts> driver_facts();

/// Returns how many devices this process uses through their primary contexts, as programs of the
/// CUDA runtime do.
[[nodiscard]] int devices_in_use();

/// Returns the context of the calling thread; nullptr if it has none.
[[nodiscard]] CUcontext context_of_caller();

/// Blocks until all work of the calling thread's context is complete.
void finish_work_of_caller();

}  // namespace msstream::overlap::record
