// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"

#include <cub/block/block_reduce.cuh>

#include <cstdint>

/// Prefix sums of an array in two launches: in the first each block adds up one tile, in the second
/// each block adds up the totals of the tiles before its own. No block waits for another.
namespace msstream::ops::kernels {

inline constexpr int kTileThreads = 256;

/// The division of an array into few tiles of equal length. Depends only on the capacity.
struct Tiles {
  static constexpr int kItems = 8;  ///< neighbouring positions per thread
  static constexpr std::int64_t kTurn =
      kTileThreads * kItems;  ///< positions that a block processes at once
  static constexpr std::int64_t kMost = 2048;

  std::int64_t places;  ///< positions per tile
  std::int64_t count;

  explicit Tiles(std::int64_t capacity)
      : places(ceil_div(ceil_div(capacity, kMost), kTurn) * kTurn),
        count(capacity > 0 ? ceil_div(capacity, places) : 0) {}
  /// Returns one tile for one block, which contains all of a small, possibly empty array.
  static Tiles one(std::int64_t capacity) {
    Tiles tiles(capacity);
    tiles.places = capacity;
    tiles.count = 1;
    return tiles;
  }

  __device__ std::int64_t begin() const { return std::int64_t{blockIdx.x} * places; }
  __device__ std::int64_t end(std::int64_t existing) const {
    return min(begin() + places, existing);
  }
};

/// Combines the totals of the threads of a block, and stores the result as the total of the block's
/// tile. All threads of the block must call store_total(), and `combine` must not depend on the
/// order of the threads.
template <class Total, class Combine>
__device__ void store_total(Total total, Combine combine, Total* totals_of_tiles) {
  using Reduce = cub::BlockReduce<Total, kTileThreads>;
  __shared__ typename Reduce::TempStorage shared;
  auto const of_block = Reduce(shared).Reduce(total, combine);
  if (threadIdx.x == 0) {
    totals_of_tiles[blockIdx.x] = of_block;
  }
}

/// Returns the combined totals of the tiles before the block's own tile, to all threads. All
/// threads of the block must call total_before().
template <class Total, class Combine>
__device__ Total total_before(Total const* totals_of_tiles, Total nothing, Combine combine) {
  using Reduce = cub::BlockReduce<Total, kTileThreads>;
  __shared__ typename Reduce::TempStorage shared;
  __shared__ Total before;
  Total total = nothing;
  for (unsigned tile = threadIdx.x; tile < blockIdx.x; tile += kTileThreads) {
    total = combine(total, totals_of_tiles[tile]);
  }
  auto const of_block = Reduce(shared).Reduce(total, combine);
  if (threadIdx.x == 0) {
    before = of_block;
  }
  __syncthreads();
  return before;
}

}  // namespace msstream::ops::kernels
