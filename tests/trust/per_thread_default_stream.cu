// SPDX-License-Identifier: Apache-2.0
#include "trust/per_thread_default_stream.hpp"

#include <cuda_runtime.h>

namespace msstream::testing::per_thread_default_stream {

void fill(void* device, std::size_t bytes) {
  cudaMemsetAsync(device, 0, bytes, nullptr);
}

void copy_on_device(void* to, void const* from) {
  cudaMemcpy2D(to, 64, from, 64, 32, 4, cudaMemcpyDeviceToDevice);
}

void copy(void* pinned, void const* device, std::size_t bytes) {
  cudaMemcpy(pinned, device, bytes, cudaMemcpyDeviceToHost);
}

}  // namespace msstream::testing::per_thread_default_stream
