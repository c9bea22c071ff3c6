// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>

#include <cuda_runtime_api.h>

#include <source_location>

namespace msstream::detail {

/// Throws CudaError with `call` and its source location, unless `code` is cudaSuccess. Clears
/// CUDA's last error, so that the next CUDA call does not report it again.
inline void check_cuda(cudaError_t code,
                       char const* call,
                       std::source_location where = std::source_location::current()) {
  if (code != cudaSuccess) [[unlikely]] {
    cudaGetLastError();
    throw CudaError(code, cudaGetErrorString(code), call, where);
  }
}

}  // namespace msstream::detail
