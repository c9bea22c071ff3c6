// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/vector_map.cuh"

/// Combines the values of several threads into one, in a fixed order. `Reducer` is a class of
/// elementwise/reduce_math.hpp.
namespace msstream::ops::kernels {

/// Returns the reduction over lanes whose numbers differ only in the bits below `lanes`, a power of
/// two. All lanes of the warp must call reduce_lanes(), and all get the result.
template <class Reducer>
__device__ float reduce_lanes(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = Reducer::combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

/// Returns the reduction over a block of kBlockThreads threads. All threads of the block must call
/// reduce_block(), and all get the result.
template <class Reducer>
__device__ float reduce_block(float value) {
  constexpr int kWarps = kBlockThreads / 32;
  __shared__ float warps[kWarps];
  value = reduce_lanes<Reducer>(value, 32);
  __syncthreads();  // all threads have read the results of an earlier call
  if (threadIdx.x % 32 == 0) {
    warps[threadIdx.x / 32] = value;
  }
  __syncthreads();
  value = warps[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) {
    value = Reducer::combine(value, warps[warp]);
  }
  return value;
}

}  // namespace msstream::ops::kernels
