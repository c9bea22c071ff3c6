// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>

#include <cuda_runtime_api.h>

#include <source_location>

namespace benchmarks {

/// Throws msstream::CudaError if a CUDA call of a baseline has failed.
inline void require_success(cudaError_t code,
                            char const* call,
                            std::source_location where = std::source_location::current()) {
  if (code != cudaSuccess) {
    throw msstream::CudaError(static_cast<int>(code), cudaGetErrorString(code), call, where);
  }
}

}  // namespace benchmarks
