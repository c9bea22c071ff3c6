// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "optimizer/square_sums.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

static_assert(kBlockThreads == kSumLanes, "a thread is a lane of a sum");

/// Returns to thread 0 the sum of the values of all threads of a block, in the order that
/// square_sums.hpp describes. All threads of the block must call sum_over_block() together.
__device__ inline double sum_over_block(double value) {
  __shared__ double lanes[kSumLanes];
  __syncthreads();
  lanes[threadIdx.x] = value;
  __syncthreads();
  for (unsigned distance = kSumLanes / 2; distance >= 32; distance /= 2) {
    if (threadIdx.x < distance) {
      lanes[threadIdx.x] = __dadd_rn(lanes[threadIdx.x], lanes[threadIdx.x + distance]);
    }
    __syncthreads();
  }
  double sum = 0.0;
  if (threadIdx.x < 32) {
    sum = lanes[threadIdx.x];
    for (int distance = 16; distance > 0; distance /= 2) {
      sum = __dadd_rn(sum, __shfl_down_sync(kAllLanes, sum, distance));
    }
  }
  return sum;
}
/// Returns to thread 0 the sum of the sums of `count` chunks.
__device__ inline double sum_of_chunks(double const* sums, std::int64_t count) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kSumLanes) {
    sum = __dadd_rn(sum, sums[i]);
  }
  return sum_over_block(sum);
}

}  // namespace msstream::ops::kernels
