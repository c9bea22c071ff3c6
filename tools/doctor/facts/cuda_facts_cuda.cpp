// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/cuda_facts_cuda.hpp"

#include "doctor/measure/kernels.hpp"
#include "runtime/cuda/driver_call_cuda.hpp"
#include "runtime/cuda/sm_parts_cuda.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <fmt/core.h>

#include <cstddef>
#include <utility>

namespace msstream::doctor {
namespace {

int attribute_of(cudaDeviceAttr attribute, int ordinal) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, attribute, ordinal) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return value;
}

/// Returns an attribute that the CUDA driver alone knows; 0 if it does not know it.
int driver_attribute_of(CUdevice_attribute attribute, int ordinal) {
  CUresult (*get)(int*, CUdevice_attribute, CUdevice) = nullptr;
  int value = 0;
  if (!detail::find_driver_call(get, "cuDeviceGetAttribute", 12'000) ||
      get(&value, attribute, ordinal) != CUDA_SUCCESS) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return value;
}

bool driver_has(char const* call, unsigned version) {
  void (*found)() = nullptr;
  bool const has = detail::find_driver_call(found, call, version);
  static_cast<void>(cudaGetLastError());
  return has;
}

Available by_device(bool available) {
  return available ? Available::yes : Available::not_by_device;
}

}  // namespace

void add_cuda(DriverFacts& facts) {
  facts.is_cuda_build = true;
  facts.toolkit = CUDART_VERSION;
  facts.kernels = built_kernels(MSSTREAM_CUDA_ARCHITECTURES, kernel_architectures());
  if (cudaRuntimeGetVersion(&facts.runtime) != cudaSuccess) {
    facts.runtime = 0;
  }
  int supports = 0;  // stays 0 without a driver
  if (cudaDriverGetVersion(&supports) == cudaSuccess && supports > 0) {
    facts.supports = supports;
  }
  facts.devices = 0;
  if (auto const code = cudaGetDeviceCount(&facts.devices); code != cudaSuccess) {
    facts.problem = cudaGetErrorString(code);
    facts.devices = 0;
  }
  static_cast<void>(cudaGetLastError());
}

std::vector<DeviceFacts> read_devices(int count, NvmlFacts const& nvml) {
  std::vector<DeviceFacts> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    DeviceFacts facts;
    facts.ordinal = ordinal;
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, ordinal) == cudaSuccess) {
      facts.name = properties.name;
      facts.bus_id = fmt::format("{:04x}:{:02x}:{:02x}.0",
                                 properties.pciDomainID,
                                 properties.pciBusID,
                                 properties.pciDeviceID);
      facts.capability = properties.major * 10 + properties.minor;
      facts.multiprocessors = properties.multiProcessorCount;
      facts.memory_bytes = static_cast<double>(properties.totalGlobalMem);
    }
    static_cast<void>(cudaGetLastError());
    facts.compute_mode = attribute_of(cudaDevAttrComputeMode, ordinal);
    facts.ecc = attribute_of(cudaDevAttrEccEnabled, ordinal) != 0;
    for (auto const& other : nvml.devices) {
      if (other.bus_id == facts.bus_id) {
        facts.nvml = other;
      }
    }
    devices.push_back(std::move(facts));
  }
  return devices;
}

FeatureFacts read_features(int ordinal) {
  FeatureFacts facts;
  facts.device = ordinal;
  facts.concurrent_kernels = by_device(attribute_of(cudaDevAttrConcurrentKernels, ordinal) != 0);
  facts.copy_engines = attribute_of(cudaDevAttrAsyncEngineCount, ordinal);
  facts.memory_pools = by_device(attribute_of(cudaDevAttrMemoryPoolsSupported, ordinal) != 0);
  facts.host_access = by_device(attribute_of(cudaDevAttrCanMapHostMemory, ordinal) != 0);
  facts.priorities = by_device(attribute_of(cudaDevAttrStreamPrioritiesSupported, ordinal) != 0);
  int least = 0;
  int greatest = 0;
  if (facts.priorities == Available::yes &&
      cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess) {
    facts.priority_levels = least - greatest + 1;
  }
  static_cast<void>(cudaGetLastError());
  facts.pages =
      !driver_has("cuMemMap", 12'000)
          ? Available::not_by_driver
          : by_device(driver_attribute_of(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                          ordinal) != 0);
  facts.multicast =
      !driver_has("cuMulticastCreate", 12'010)
          ? Available::not_by_driver
          : by_device(driver_attribute_of(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, ordinal) != 0);
  facts.green_streams =
      driver_has("cuGreenCtxStreamCreate", 12'050) ? Available::yes : Available::not_by_driver;
  facts.most_sm_parts = detail::CudaSmParts(ordinal).most();
  facts.green_contexts = green_contexts_of(driver_has("cuGreenCtxCreate", 12'040),
                                           facts.green_streams == Available::yes,
                                           facts.most_sm_parts);
  auto const capability = attribute_of(cudaDevAttrComputeCapabilityMajor, ordinal) * 10 +
                          attribute_of(cudaDevAttrComputeCapabilityMinor, ordinal);
  facts.fp8_products = by_device(capability >= 89);
  // Kernels update graphs from CUDA 12.4 on, on devices that launch graphs themselves: from compute
  // capability 7.5 on.
  bool const is_new = capability >= 75;
  int supports = 0;
  static_cast<void>(cudaDriverGetVersion(&supports));
  facts.graph_updates = supports < 12'040 ? Available::not_by_driver : by_device(is_new);
  return facts;
}

}  // namespace msstream::doctor
