// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/facts/driver.hpp"
#include "doctor/facts/nvml.hpp"
#include "doctor/line.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace msstream::doctor {

/// One GPU, as CUDA and NVML describe it.
struct DeviceFacts {
  int ordinal = 0;  ///< CUDA's number; NVML's in a build for the host
  std::string name = {};
  std::string bus_id = {};               ///< such as 0000:1b:00.0
  int capability = 0;                    ///< ten times the compute capability, such as 90
  int multiprocessors = 0;               ///< 0 if unknown
  double memory_bytes = 0;               ///< of the device
  bool is_visible = true;                ///< to CUDA
  NvmlDevice nvml = {};                  ///< empty members without NVML
  std::optional<int> compute_mode = {};  ///< as CUDA says; NVML's if empty
  std::optional<bool> ecc = {};          ///< as CUDA says; NVML's if empty
  /// The processors that are near the device, and those of them on which this process may run.
  std::optional<int> near_processors = {};
  int near_allowed = 0;
};

/// Whether a server of CUDA's Multi-Process Service is there, to which CUDA would connect.
struct MpsFacts {
  std::string pipe_folder = {};  ///< CUDA_MPS_PIPE_DIRECTORY, or /tmp/nvidia-mps
  bool is_running = false;       ///< the folder has the control pipe of a daemon that runs
};

/// Returns facts of NVML's devices alone, for a build for the host.
[[nodiscard]] std::vector<DeviceFacts> devices_of(NvmlFacts const& nvml);
/// Reads which processors are near the device.
void add_nearness(DeviceFacts& facts, std::filesystem::path const& root = "/");
[[nodiscard]] MpsFacts read_mps(std::filesystem::path const& root = "/");

[[nodiscard]] Lines device_lines(DeviceFacts const& facts, DriverFacts const& driver);
[[nodiscard]] Line mps_line(MpsFacts const& facts);

/// Describes a device in a line, for --list.
[[nodiscard]] std::string summary_of(DeviceFacts const& facts);
/// Returns the GB/s that a link of PCI Express carries one way, without its encoding; 0 if unknown.
[[nodiscard]] double link_gb_per_s(NvmlDevice const& device) noexcept;

}  // namespace msstream::doctor
