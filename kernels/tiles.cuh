// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_check.cuh"

#include <cub/block/block_reduce.cuh>

#include <cstdint>

/// Prefix sums in two launches: each tile is added up by one block, then each block adds up the
/// totals of the tiles before its own. No block waits for another.
namespace msstream::ops::kernels {

inline constexpr int kTileThreads = 256;

/// The tiles of an array, equal and few; depends on the capacity alone.
struct Tiles {
  static constexpr int kItems = 8;                              ///< neighbouring places of a thread
  static constexpr std::int64_t kTurn = kTileThreads * kItems;  ///< what a block takes at once
  static constexpr std::int64_t kMost = 2048;

  std::int64_t places;  ///< of one tile
  std::int64_t count;

  explicit Tiles(std::int64_t capacity)
      : places(ceil_div(ceil_div(capacity, kMost), kTurn) * kTurn),
        count(capacity > 0 ? ceil_div(capacity, places) : 0) {}
  /// All of a small array, which may be empty, for one block.
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

/// What the places of a block's threads make together; thread 0 stores it for the block's tile. To
/// be called by all threads of the block, whose order `combine` must not depend on.
template <class Total, class Combine>
__device__ void store_total(Total total, Combine combine, Total* totals_of_tiles) {
  using Reduce = cub::BlockReduce<Total, kTileThreads>;
  __shared__ typename Reduce::TempStorage shared;
  auto const of_block = Reduce(shared).Reduce(total, combine);
  if (threadIdx.x == 0) {
    totals_of_tiles[blockIdx.x] = of_block;
  }
}

/// What the tiles before the block's own make together; all threads of the block call it and get
/// the result.
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
