// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace msstream::doctor {

/// The answers of NVIDIA's management library about one GPU. An empty member is unknown.
struct NvmlDevice {
  std::string name = {};
  std::string bus_id = {};  ///< such as 0000:1b:00.0, in lower case
  std::optional<double> memory_bytes = {};
  std::optional<double> free_bytes = {};
  std::optional<int> capability = {};    ///< ten times the compute capability, such as 90
  std::optional<int> compute_mode = {};  ///< 0 default, 1 and 3 exclusive, 2 prohibited
  std::optional<bool> persistence = {};
  std::optional<bool> ecc = {};
  std::optional<bool> mig = {};
  std::optional<int> link_generation = {};  ///< of PCI Express, at most
  std::optional<int> link_width = {};       ///< lanes in use
  std::optional<int> most_link_width = {};
  std::optional<std::uint64_t> slowdown_reasons = {};  ///< bits of NVML_CLOCKS_THROTTLE_REASON
  std::optional<int> processes = {};                   ///< with a CUDA context
};

/// The answers of the management library about the computer.
struct NvmlFacts {
  std::string driver = {};               ///< such as 580.65.06; empty if unknown
  std::optional<int> cuda_version = {};  ///< that the driver supports, such as 13000
  std::vector<NvmlDevice> devices = {};
  bool is_loaded = false;    ///< the library is there
  std::string problem = {};  ///< why the library cannot be used; empty if it can
};

/// Returns the address of a function of the library; null if it has none of that name.
using FindFunction = std::function<void*(char const* name)>;

/// Reads all devices through functions that `find` returns. Changes no setting.
[[nodiscard]] NvmlFacts read_nvml(FindFunction const& find);
/// Loads libnvidia-ml, which comes with the driver, and reads all devices.
[[nodiscard]] NvmlFacts read_nvml();

}  // namespace msstream::doctor
