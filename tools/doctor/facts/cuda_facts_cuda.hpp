// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/facts/device.hpp"
#include "doctor/facts/driver.hpp"
#include "doctor/facts/features.hpp"
#include "doctor/facts/nvml.hpp"

#include <vector>

// Asks the CUDA runtime, without making a context on a device.
namespace msstream::doctor {

/// Adds what the CUDA runtime says of itself, of the driver and of the number of devices.
void add_cuda(DriverFacts& facts);

/// Reads the devices that CUDA shows, with what NVML says of each.
[[nodiscard]] std::vector<DeviceFacts> read_devices(int count, NvmlFacts const& nvml);

[[nodiscard]] FeatureFacts read_features(int ordinal);

}  // namespace msstream::doctor
