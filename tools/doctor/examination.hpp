// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/facts/device.hpp"
#include "doctor/facts/driver.hpp"
#include "doctor/facts/environment.hpp"
#include "doctor/findings.hpp"

#include <vector>

namespace msstream::doctor {

/// The options of an examination.
struct ExaminationPlan {
  int device = 0;         ///< the GPU to measure
  bool is_quick = false;  ///< leaves measurements out
};

/// The driver and the devices, which other checks need.
struct Computer {
  DriverFacts driver = {};
  std::vector<DeviceFacts> devices = {};

  /// Returns whether programs of this build can use a GPU.
  [[nodiscard]] bool has_usable_device() const noexcept {
    return driver.is_cuda_build && driver.devices > 0 && is_driver_new_enough(driver);
  }
};
/// Reads the driver and the devices. Makes no context on a device.
[[nodiscard]] Computer read_computer();

/// Runs the checks that need neither driver nor device.
void examine_host(EnvironmentFacts const& environment, Findings const& findings);
/// Runs all other checks. `plan.device` must exist if `computer` has a usable device.
void examine(ExaminationPlan const& plan,
             Computer const& computer,
             EnvironmentFacts const& environment,
             Findings const& findings);

}  // namespace msstream::doctor
