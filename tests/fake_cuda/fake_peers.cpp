// SPDX-License-Identifier: Apache-2.0
#include "fake_call.hpp"

#include <cuda_runtime_api.h>

#include <cstdio>

/// Fake calls for the memory of other GPUs and processes. The fake CUDA runtime has one device, so
/// that ranks reach nobody's memory, and NCCL carries out their collectives.

using fake_cuda::call;
using fake_cuda::FakeDevice;

extern "C" {

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int ordinal) {
  return call("cudaDeviceGetPCIBusId", [&](FakeDevice&) {
    std::snprintf(id, static_cast<std::size_t>(length), "0000:1b:00.0");
    return ordinal == 0 ? cudaSuccess : cudaErrorInvalidDevice;
  });
}
cudaError_t cudaDeviceGetByPCIBusId(int* ordinal, char const*) {
  *ordinal = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int*, int, int) {
  return cudaErrorInvalidDevice;
}
cudaError_t cudaDeviceGetP2PAttribute(int*, cudaDeviceP2PAttr, int, int) {
  return cudaErrorInvalidDevice;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return cudaErrorInvalidDevice;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  return cudaErrorNotSupported;
}
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return cudaErrorNotSupported;
}
cudaError_t cudaIpcCloseMemHandle(void*) {
  return cudaErrorNotSupported;
}

}  // extern "C"
