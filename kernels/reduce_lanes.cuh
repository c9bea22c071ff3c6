// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise_pack.cuh"

/// One value from those of several threads, in a fixed order. `Reducer` is one of reduce_math.hpp.
namespace msstream::ops::kernels {

/// Over lanes that differ in the bits below `lanes`, a power of two; all lanes of a warp call it
/// and get the result.
template <class Reducer>
__device__ float reduce_lanes(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = Reducer::combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

/// Over a block of kBlockThreads; all its threads call it and get the result.
template <class Reducer>
__device__ float reduce_block(float value) {
  constexpr int kWarps = kBlockThreads / 32;
  __shared__ float warps[kWarps];
  value = reduce_lanes<Reducer>(value, 32);
  __syncthreads();  // an earlier call has been read
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
