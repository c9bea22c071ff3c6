// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/facts/architectures.hpp"
#include "doctor/facts/nvml.hpp"
#include "doctor/line.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace msstream::doctor {

/// The driver, and the CUDA with which the program was built. CUDA writes version 13.0 as 13000.
struct DriverFacts {
  bool is_cuda_build = false;
  int toolkit = 0;  ///< the version of the build; 0 in a build for the host
  int runtime = 0;  ///< the version of the loaded runtime; 0 in a build for the host
  BuiltKernels kernels = {};
  std::string driver = {};         ///< the version of the driver, such as 580.65.06
  int supports = 0;                ///< the CUDA that the driver supports; 0 without a driver
  bool has_kernel_module = false;  ///< /proc/driver/nvidia exists
  bool has_device_files = false;   ///< /dev/nvidiactl exists and can be opened
  bool is_device_hidden = false;   ///< CUDA_VISIBLE_DEVICES is set
  int devices = 0;                 ///< that CUDA shows, or NVML in a build for the host
  std::string problem = {};        ///< the message of CUDA if it shows none
  bool has_nvml = false;           ///< NVIDIA's management library can be loaded
  std::string nvml_problem = {};   ///< why that library does not work; empty if it does
};

/// Reads what needs no CUDA: the versions that NVML and /proc show, and the files of devices. A
/// build for CUDA then adds what the CUDA runtime says.
[[nodiscard]] DriverFacts read_driver(NvmlFacts const& nvml,
                                      std::filesystem::path const& root = "/");
/// Loads the driver's library, and returns the CUDA that it supports; 0 if there is none. Works
/// also for a driver that the CUDA runtime of the build refuses.
[[nodiscard]] int supported_by_libcuda();
/// Returns the lines. `way_to_cuda_build` says how to get a build for CUDA, for a computer with a
/// GPU that this build does not use.
[[nodiscard]] Lines driver_lines(DriverFacts const& facts, std::string_view way_to_cuda_build = {});

/// Returns whether the CUDA runtime of the build works with the driver: the driver supports at
/// least its major version.
[[nodiscard]] bool is_driver_new_enough(DriverFacts const& facts) noexcept;
/// Returns whether the driver compiles PTX of the build: it is not older than the toolkit. True
/// also where the versions are unknown.
[[nodiscard]] bool compiles_ptx(DriverFacts const& facts) noexcept;
/// Writes a version of CUDA, such as `13.0` for 13000.
[[nodiscard]] std::string cuda_version_text(int version);

}  // namespace msstream::doctor
