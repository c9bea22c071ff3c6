// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/require_int32.hpp"

#include <msstream/base/error.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <source_location>

namespace msstream::ops::kernels {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;  ///< mask of all lanes of a warp

/// Throws CudaError, naming `call` and the source location, unless `code` is cudaSuccess.
inline void check_cuda(cudaError_t code,
                       char const* call,
                       std::source_location where = std::source_location::current()) {
  if (code != cudaSuccess) {
    throw CudaError(static_cast<int>(code), cudaGetErrorString(code), call, where);
  }
}

/// Throws CudaError if the last kernel could not be launched. Must be called right after the
/// launch. Neither synchronises with the device nor disturbs a capture.
inline void check_launch(char const* kernel_name,
                         std::source_location where = std::source_location::current()) {
  check_cuda(cudaGetLastError(), kernel_name, where);
}

template <class Integer>
__host__ __device__ constexpr Integer ceil_div(Integer dividend, Integer divisor) {
  return (dividend + divisor - 1) / divisor;
}

/// Returns the number of thread blocks that process `items` items, if each block processes
/// `items_per_block`. Throws std::invalid_argument if the x dimension of a grid cannot hold that
/// many blocks.
inline unsigned grid_for(std::int64_t items, std::int64_t items_per_block) {
  auto const blocks = ceil_div(items, items_per_block);
  require_int32("a launch", blocks, "blocks");
  return static_cast<unsigned>(blocks);
}

/// Returns the first element of the calling thread's grid-stride loop; the step is grid_stride().
__device__ inline std::int64_t grid_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

}  // namespace msstream::ops::kernels
