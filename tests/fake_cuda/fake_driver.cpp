// SPDX-License-Identifier: Apache-2.0
#include "driver_call.hpp"
#include "fake_green_contexts.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <string_view>

/// Fake versions of the CUDA driver functions that the library looks up through the CUDA runtime.

namespace fake_cuda {
namespace {

CUresult get_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  return driver_call("cuDeviceGetAttribute", [&](FakeDevice&) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
CUresult get_granularity(std::size_t* bytes,
                         CUmemAllocationProp const*,
                         CUmemAllocationGranularity_flags) {
  return driver_call("cuMemGetAllocationGranularity", [&](FakeDevice&) {
    *bytes = FakePages::kPageBytes;
    return CUDA_SUCCESS;
  });
}
CUresult reserve(
    CUdeviceptr* begin, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  return driver_call("cuMemAddressReserve",
                     [&](FakeDevice& device) { return device.pages.reserve(begin, bytes); });
}
CUresult release(CUdeviceptr begin, std::size_t bytes) {
  return driver_call("cuMemAddressFree",
                     [&](FakeDevice& device) { return device.pages.release(begin, bytes); });
}
CUresult create(CUmemGenericAllocationHandle* page,
                std::size_t bytes,
                CUmemAllocationProp const*,
                unsigned long long) {
  return driver_call("cuMemCreate", [&](FakeDevice& device) {
    return bytes == FakePages::kPageBytes
               ? device.pages.create(page, FakeDevice::kMemoryBytes / FakePages::kPageBytes)
               : CUDA_ERROR_INVALID_VALUE;
  });
}
CUresult destroy(CUmemGenericAllocationHandle page) {
  return driver_call("cuMemRelease", [&](FakeDevice& device) { return device.pages.drop(page); });
}
CUresult retain(CUmemGenericAllocationHandle* page, void* at) {
  return driver_call("cuMemRetainAllocationHandle", [&](FakeDevice& device) {
    return device.pages.retain(page, reinterpret_cast<CUdeviceptr>(at));
  });
}
CUresult map(CUdeviceptr at,
             std::size_t bytes,
             std::size_t,
             CUmemGenericAllocationHandle page,
             unsigned long long) {
  return driver_call("cuMemMap", [&](FakeDevice& device) {
    return bytes == FakePages::kPageBytes ? device.pages.map(at, page) : CUDA_ERROR_INVALID_VALUE;
  });
}
CUresult unmap(CUdeviceptr at, std::size_t bytes) {
  return driver_call("cuMemUnmap", [&](FakeDevice& device) {
    return bytes == FakePages::kPageBytes ? device.pages.unmap(at) : CUDA_ERROR_INVALID_VALUE;
  });
}
CUresult set_access(CUdeviceptr at, std::size_t bytes, CUmemAccessDesc const*, std::size_t) {
  return driver_call("cuMemSetAccess",
                     [&](FakeDevice& device) { return device.pages.allow_access(at, bytes); });
}
CUresult error_string(CUresult, char const** words) {
  *words = "an error of the driver";
  return CUDA_SUCCESS;
}

struct EntryPoint {
  std::string_view name;
  void* function;
};
template <class Function>
EntryPoint entry(std::string_view name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace
}  // namespace fake_cuda

cudaError_t cudaGetDriverEntryPointByVersion(char const* name,
                                             void** function,
                                             unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  using namespace fake_cuda;
  static std::array const entries{entry("cuDeviceGetAttribute", get_attribute),
                                  entry("cuMemGetAllocationGranularity", get_granularity),
                                  entry("cuMemAddressReserve", reserve),
                                  entry("cuMemAddressFree", release),
                                  entry("cuMemCreate", create),
                                  entry("cuMemRelease", destroy),
                                  entry("cuMemRetainAllocationHandle", retain),
                                  entry("cuMemMap", map),
                                  entry("cuMemUnmap", unmap),
                                  entry("cuMemSetAccess", set_access),
                                  entry("cuDeviceGetDevResource", get_dev_resource),
                                  entry("cuDevSmResourceSplitByCount", split_by_count),
                                  entry("cuDevResourceGenerateDesc", generate_desc),
                                  entry("cuGreenCtxCreate", create_green_context),
                                  entry("cuGreenCtxDestroy", destroy_green_context),
                                  entry("cuGreenCtxStreamCreate", create_green_stream),
                                  entry("cuGetErrorString", error_string)};
  return call("cudaGetDriverEntryPointByVersion", [&](FakeDevice&) {
    *function = nullptr;
    for (auto const& known : entries) {
      if (known.name == name) {
        *function = known.function;
      }
    }
    *result =
        *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  });
}
