// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/long_sum.hpp"
#include "common/vector_map.cuh"

#include <cstdint>

/// Loops over the columns of rows that are too long for registers: a block reads its row several
/// times, at best from the cache.
namespace msstream::ops::kernels {

/// The least number of blocks that a multiprocessor holds at once, for rows that a block shares and
/// reads several times. Each of their sums has a float64 total, which needs registers.
inline constexpr int kBlocksOfLongRows = 6;

/// Calls each(column) for the calling thread's columns of a row that its block shares.
template <class Each>
__device__ void for_each_of_block(std::int64_t columns, Each const& each) {
#pragma unroll 4
  for (std::int64_t column = threadIdx.x; column < columns; column += kBlockThreads) {
    each(column);
  }
}

/// Calls each(column) for the calling thread's columns of a row that its block shares, and fold()
/// after at most kTermsOfPart columns, for sums that need float64 totals.
template <class Each, class Fold>
__device__ void for_each_of_block(std::int64_t columns, Each const& each, Fold const& fold) {
  std::int64_t column = threadIdx.x;
  while (column < columns) {
    auto const end_of_part = min(column + kTermsOfPart * kBlockThreads, columns);
#pragma unroll 4
    for (; column < end_of_part; column += kBlockThreads) {
      each(column);
    }
    fold();
  }
}

}  // namespace msstream::ops::kernels
