// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/long_sum.hpp"
#include "common/vector_map.cuh"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

/// Division of rows among threads, for kernels that read a row more than once. A short row stays in
/// the registers of up to a warp; a long row is read again by its block, at best from the cache.
namespace msstream::ops::kernels {

/// The longest row that the lanes of a warp keep in registers: 32 registers of each lane.
inline constexpr std::int64_t kLongestRowOfLanes = 1024;

/// The row that a thread works on, and the thread's elements of the row: columns lane, lane +
/// lanes, …
struct RowOfLanes {
  int lanes;  ///< lanes per row, a power of two
  int lane;
  std::int64_t row;

  explicit __device__ RowOfLanes(int log2_lanes)
      : lanes(1 << log2_lanes),
        lane(static_cast<int>(threadIdx.x) & (lanes - 1)),
        row(grid_thread() >> log2_lanes) {}

  /// Calls each(k, column) for the calling thread's columns below `columns`. k numbers the columns
  /// from 0 and is known at compile time, so that it can be used as an index of registers.
  template <int PerLane, class Each>
  __device__ void for_each(std::int64_t columns, Each const& each) const {
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      int const column = lane + k * lanes;
      if (column < columns) {
        each(k, column);
      }
    }
  }
};

/// Calls launch(elements per lane as a constant, log2 of the lanes per row, blocks) for rows of at
/// most kLongestRowOfLanes elements.
template <class Launch>
void with_row_lanes(std::int64_t rows, std::int64_t columns, Launch const& launch) {
  auto const width = static_cast<unsigned>(std::max<std::int64_t>(columns, 1));
  int const log2_lanes = std::min(static_cast<int>(std::bit_width(width - 1)), 5);
  unsigned const blocks = grid_for(rows, kBlockThreads >> log2_lanes);
  auto const with = [&](auto per_lane) { launch(per_lane, log2_lanes, blocks); };
  if (columns <= 32) {
    with(std::integral_constant<int, 1>{});
  } else if (columns <= 64) {
    with(std::integral_constant<int, 2>{});
  } else if (columns <= 128) {
    with(std::integral_constant<int, 4>{});
  } else if (columns <= 256) {
    with(std::integral_constant<int, 8>{});
  } else if (columns <= 512) {
    with(std::integral_constant<int, 16>{});
  } else {
    with(std::integral_constant<int, 32>{});
  }
}

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
