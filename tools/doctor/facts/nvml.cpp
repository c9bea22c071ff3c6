// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/nvml.hpp"

#include "doctor/facts/shared_library.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace msstream::doctor {
namespace {

// The library's interface, declared here so that a build without CUDA's headers has it too.
using Result = int;  // 0 for success
using Handle = void*;
struct PciInfo {  // nvmlPciInfo_t, version 3
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_sub_system_id;
  char bus_id[32];
};
struct Memory {  // nvmlMemory_t
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
constexpr Result kSuccess = 0;
constexpr Result kTooSmall = 7;  // NVML_ERROR_INSUFFICIENT_SIZE

template <class Function>
Function* function_of(FindFunction const& find, char const* name) {
  return reinterpret_cast<Function*>(find(name));
}

/// Calls a function that stores one number of a device.
template <class Number>
std::optional<Number> number_of(FindFunction const& find, char const* name, Handle device) {
  Number number{};
  auto* const function = function_of<Result(Handle, Number*)>(find, name);
  return function != nullptr && function(device, &number) == kSuccess ? std::optional(number)
                                                                      : std::nullopt;
}

/// Calls a function that stores the setting in force, and the one after the next restart.
std::optional<bool> setting_of(FindFunction const& find, char const* name, Handle device) {
  unsigned now = 0;
  unsigned pending = 0;
  auto* const function = function_of<Result(Handle, unsigned*, unsigned*)>(find, name);
  return function != nullptr && function(device, &now, &pending) == kSuccess
             ? std::optional(now != 0)
             : std::nullopt;
}

std::optional<int> as_int(std::optional<unsigned> number) {
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

std::optional<int> processes_of(FindFunction const& find, Handle device) {
  auto* const function = function_of<Result(Handle, unsigned*, void*)>(
      find, "nvmlDeviceGetComputeRunningProcesses_v3");
  unsigned count = 0;  // of elements that there is room for
  if (function == nullptr) {
    return std::nullopt;
  }
  auto const code = function(device, &count, nullptr);
  return code == kSuccess || code == kTooSmall ? std::optional(static_cast<int>(count))
                                               : std::nullopt;
}

NvmlDevice read_device(FindFunction const& find, Handle device) {
  NvmlDevice out;
  std::array<char, 128> name{};
  auto* const get_name = function_of<Result(Handle, char*, unsigned)>(find, "nvmlDeviceGetName");
  if (get_name != nullptr && get_name(device, name.data(), name.size() - 1) == kSuccess) {
    out.name = name.data();
  }
  PciInfo pci{};
  auto* const get_pci = function_of<Result(Handle, PciInfo*)>(find, "nvmlDeviceGetPciInfo_v3");
  if (get_pci != nullptr && get_pci(device, &pci) == kSuccess) {
    out.bus_id = fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
  }
  if (auto const memory = number_of<Memory>(find, "nvmlDeviceGetMemoryInfo", device)) {
    out.memory_bytes = static_cast<double>(memory->total);
    out.free_bytes = static_cast<double>(memory->free);
  }
  int major = 0;
  int minor = 0;
  auto* const get_capability =
      function_of<Result(Handle, int*, int*)>(find, "nvmlDeviceGetCudaComputeCapability");
  if (get_capability != nullptr && get_capability(device, &major, &minor) == kSuccess) {
    out.capability = major * 10 + minor;
  }
  out.compute_mode = as_int(number_of<unsigned>(find, "nvmlDeviceGetComputeMode", device));
  if (auto const on = number_of<unsigned>(find, "nvmlDeviceGetPersistenceMode", device)) {
    out.persistence = *on != 0;
  }
  out.ecc = setting_of(find, "nvmlDeviceGetEccMode", device);
  out.mig = setting_of(find, "nvmlDeviceGetMigMode", device);
  out.link_generation =
      as_int(number_of<unsigned>(find, "nvmlDeviceGetMaxPcieLinkGeneration", device));
  out.link_width = as_int(number_of<unsigned>(find, "nvmlDeviceGetCurrPcieLinkWidth", device));
  out.most_link_width = as_int(number_of<unsigned>(find, "nvmlDeviceGetMaxPcieLinkWidth", device));
  if (auto const reasons = number_of<unsigned long long>(
          find, "nvmlDeviceGetCurrentClocksThrottleReasons", device)) {
    out.slowdown_reasons = *reasons;
  }
  out.processes = processes_of(find, device);
  return out;
}

}  // namespace

NvmlFacts read_nvml(FindFunction const& find) {
  NvmlFacts facts;
  facts.is_loaded = true;
  auto* const begin = function_of<Result()>(find, "nvmlInit_v2");
  auto* const end = function_of<Result()>(find, "nvmlShutdown");
  auto* const error_text = function_of<char const*(Result)>(find, "nvmlErrorString");
  if (begin == nullptr || end == nullptr) {
    facts.problem = "the library has no nvmlInit_v2";
    return facts;
  }
  if (auto const code = begin(); code != kSuccess) {
    facts.problem = error_text != nullptr ? error_text(code) : fmt::format("error {}", code);
    return facts;
  }
  std::array<char, 96> version{};
  auto* const get_driver = function_of<Result(char*, unsigned)>(find, "nvmlSystemGetDriverVersion");
  if (get_driver != nullptr && get_driver(version.data(), version.size() - 1) == kSuccess) {
    facts.driver = version.data();
  }
  int cuda = 0;
  auto* const get_cuda = function_of<Result(int*)>(find, "nvmlSystemGetCudaDriverVersion_v2");
  if (get_cuda != nullptr && get_cuda(&cuda) == kSuccess) {
    facts.cuda_version = cuda;
  }
  unsigned count = 0;
  auto* const get_count = function_of<Result(unsigned*)>(find, "nvmlDeviceGetCount_v2");
  auto* const get_handle =
      function_of<Result(unsigned, Handle*)>(find, "nvmlDeviceGetHandleByIndex_v2");
  if (get_count != nullptr && get_handle != nullptr && get_count(&count) == kSuccess) {
    for (unsigned i = 0; i < std::min(count, 64U); ++i) {
      Handle device = nullptr;
      if (get_handle(i, &device) == kSuccess) {
        facts.devices.push_back(read_device(find, device));
      }
    }
  }
  end();
  return facts;
}

NvmlFacts read_nvml() {
  SharedLibrary const library("libnvidia-ml.so.1");
  if (!library) {
    NvmlFacts facts;
    facts.problem = library.problem();
    return facts;
  }
  return read_nvml([&](char const* name) { return library.address(name); });
}

}  // namespace msstream::doctor
