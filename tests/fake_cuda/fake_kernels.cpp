// SPDX-License-Identifier: Apache-2.0
#include "fake_call.hpp"

#include <cuda_runtime_api.h>

#include <fmt/core.h>

#include <cstddef>
#include <vector>

/// Fake kernel launches, fake versions of the functions that nvcc's generated code calls around
/// launches, and the device attributes that CUB reads. The functions that begin with two
/// underscores are declared here, because CUDA's headers declare them for nvcc only.

using fake_cuda::call;
using fake_cuda::FakeDevice;

namespace {

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

thread_local std::vector<Configuration> configurations;

bool is_launchable(dim3 grid, dim3 block) {
  constexpr unsigned kMostThreads = 1024;
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.y <= 0xFFFF && grid.z <= 0xFFFF &&
         block.x * block.y * block.z > 0 && block.x * block.y * block.z <= kMostThreads;
}

cudaError_t launch(dim3 grid, dim3 block, cudaStream_t stream) {
  return call("cudaLaunchKernel", [&](FakeDevice& device) {
    return is_launchable(grid, block) ? device.enqueue(stream, [] {})
                                      : cudaErrorInvalidConfiguration;
  });
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 1;
}
void __cudaRegisterFunction(
    void**, char const*, char*, char const*, int, uint3*, uint3*, dim3*, dim3*, int*) {}
void __cudaRegisterVar(void**, char*, char*, char const*, int, std::size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid,
                                     dim3 block,
                                     std::size_t shared_bytes,
                                     CUstream_st* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid,
                                       dim3* block,
                                       std::size_t* shared_bytes,
                                       void* stream) {
  if (configurations.empty()) {
    return cudaErrorMissingConfiguration;
  }
  auto const& newest = configurations.back();
  *grid = newest.grid;
  *block = newest.block;
  *shared_bytes = newest.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = newest.stream;
  configurations.pop_back();
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, void const* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(
    cudaKernel_t, dim3 grid, dim3 block, void**, std::size_t, cudaStream_t stream) {
  return launch(grid, block, stream);
}

}  // extern "C"

cudaError_t cudaLaunchKernel(
    void const*, dim3 grid, dim3 block, void**, std::size_t, cudaStream_t stream) {
  return launch(grid, block, stream);
}

cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config, void const*, void**) {
  return launch(config->gridDim, config->blockDim, config->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void const*) {
  return call("cudaFuncGetAttributes", [&](FakeDevice&) {
    *attributes = {};
    attributes->ptxVersion = 90;
    attributes->binaryVersion = 90;
    attributes->maxThreadsPerBlock = 1024;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) {
  return call("cudaFuncSetAttribute", [](FakeDevice&) { return cudaSuccess; });
}

/// Returns an attribute of an H100, for the attributes that CUB and msstream-doctor read.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  return call("cudaDeviceGetAttribute", [&](FakeDevice& device) {
    switch (attribute) {
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
      case cudaDevAttrMultiProcessorCount:
        *value = 132;
        return cudaSuccess;
      case cudaDevAttrMaxGridDimX:
        *value = 0x7FFF'FFFF;
        return cudaSuccess;
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 << 10;
        return cudaSuccess;
      case cudaDevAttrAsyncEngineCount:
        *value = 3;
        return cudaSuccess;
      case cudaDevAttrCanMapHostMemory:
      case cudaDevAttrConcurrentKernels:
      case cudaDevAttrEccEnabled:
      case cudaDevAttrStreamPrioritiesSupported:
        *value = 1;
        return cudaSuccess;
      case cudaDevAttrComputeMode:
      case cudaDevAttrMemoryPoolsSupported:
        *value = 0;
        return cudaSuccess;
      default:
        return device.misuse(
            fmt::format("asks for device attribute {}", static_cast<int>(attribute)),
            cudaErrorInvalidValue);
    }
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, void const*, int, std::size_t, unsigned) {
  return call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", [&](FakeDevice&) {
    *blocks = 4;
    return cudaSuccess;
  });
}
