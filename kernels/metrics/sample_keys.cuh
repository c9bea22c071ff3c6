// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "metrics/bucket_map.hpp"
#include "metrics/metric_update.hpp"

#include <cstdint>

/// The sample of scores that the buckets of a BucketedAuc follow, by a block of threads.
namespace msstream::ops::kernels {

/// Sorts kMostKnots + 1 keys in shared memory, by a bitonic network (Batcher 1968). All threads of
/// a block call it.
template <int Threads>
__device__ void sort_keys(std::uint32_t* keys) {
  constexpr int kKeys = kMostKnots + 1;
  for (int run = 2; run <= kKeys; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kKeys; i += Threads) {
        int const other = i ^ distance;
        bool const ascends = (i & run) == 0;
        if (other > i && (keys[i] > keys[other]) == ascends) {
          auto const key = keys[i];
          keys[i] = keys[other];
          keys[other] = key;
        }
      }
    }
  }
  __syncthreads();
}

/// Writes the keys of the first examples, at most most_knots(), to `keys` in their order, and the
/// largest key behind them. Returns their number to all threads.
template <int Threads>
__device__ int sample_keys(MetricUpdate const& update, std::int64_t existing, std::uint32_t* keys) {
  __shared__ int of_warps[Threads / 32];
  auto const thread = static_cast<int>(threadIdx.x);
  int const most = most_knots(update.capacity);
  for (int i = thread; i <= kMostKnots; i += Threads) {
    keys[i] = ~0U;
  }
  int count = 0;
  for (std::int64_t begin = 0; begin < existing && count < most; begin += Threads) {
    auto const row = begin + thread;
    bool const counts = row < existing && is_sampled(update, row);
    auto const lanes = __ballot_sync(kAllLanes, counts ? 1 : 0);
    __syncthreads();
    if (thread % 32 == 0) {
      of_warps[thread / 32] = __popc(lanes);
    }
    __syncthreads();
    int place = count + __popc(lanes & ((1U << static_cast<unsigned>(thread % 32)) - 1U));
    for (int warp = 0; warp < Threads / 32; ++warp) {
      place += warp < thread / 32 ? of_warps[warp] : 0;
      count += of_warps[warp];
    }
    if (counts && place < most) {
      keys[place] = ordered_bits(update.scores[row]);
    }
  }
  __syncthreads();
  return min(count, most);
}

}  // namespace msstream::ops::kernels
