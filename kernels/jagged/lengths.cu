// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "common/look_back.cuh"
#include "common/workspace_layout.hpp"
#include "ids/bag_offsets.hpp"
#include "jagged/lengths.hpp"

#include <cub/block/block_exchange.cuh>
#include <cub/block/block_scan.cuh>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kLengthThreads = 256;
constexpr int kItems = 16;
constexpr std::int64_t kTile = kLengthThreads * kItems;
/// The most lengths that are processed by one block in a few rounds: the time of small batches is
/// the time of launches, not of work.
constexpr std::int64_t kBlockCapacity = 2 * kTile;

/// A tile of lengths that the threads of a block turn into offsets together. For the sums each
/// thread has neighbouring lengths; for loads and stores neighbouring threads access neighbouring
/// lengths.
struct LengthTile {
  using Scan = cub::BlockScan<std::int64_t, kLengthThreads>;
  using Exchange = cub::BlockExchange<std::int64_t, kLengthThreads, kItems>;
  struct Memory {
    typename Scan::TempStorage scan;
    typename Exchange::TempStorage exchange;
  };

  std::int64_t first;  ///< index of the thread's first length
  std::int64_t items[kItems];

  __device__ LengthTile(LengthsToOffsetsArgs const& args, std::int64_t begin)
      : first(begin + threadIdx.x) {
    auto const existing = existing_places(args.count, args.capacity);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      auto const place = first + i * kLengthThreads;
      items[i] = place < existing ? max(args.lengths.at(place), std::int64_t{0}) : 0;
    }
  }

  /// Replaces the lengths of a tile by their offsets, which start from 0, and returns the sum of
  /// the lengths. The shared memory can be reused when add() returns.
  __device__ std::int64_t add(Memory& memory) {
    Exchange(memory.exchange).StripedToBlocked(items);
    std::int64_t sum = 0;
    Scan(memory.scan).ExclusiveSum(items, items, sum);
    __syncthreads();  // all threads have read the exchanged lengths
    Exchange(memory.exchange).BlockedToStriped(items);
    __syncthreads();
    return sum;
  }

  __device__ void store(LengthsToOffsetsArgs const& args, std::int64_t before) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (auto const place = first + i * kLengthThreads; place < args.capacity) {
        args.offsets[place] = before + items[i];
      }
    }
  }
};

/// Computes all offsets from all lengths in one block.
__global__ void __launch_bounds__(kLengthThreads) few_offsets_kernel(LengthsToOffsetsArgs args) {
  __shared__ LengthTile::Memory memory;
  std::int64_t before = 0;
  for (std::int64_t begin = 0; begin < args.capacity; begin += kTile) {
    LengthTile tile(args, begin);
    auto const sum = tile.add(memory);
    tile.store(args, before);
    before += sum;
  }
  if (threadIdx.x == 0) {
    args.offsets[args.capacity] = before;
  }
}

/// The sums of lengths that thread blocks publish for each other, one per tile. All are zero before
/// the launch.
struct TileSums {
  std::uint64_t* of_tiles;
  unsigned* next_tile;
  std::size_t bytes;

  TileSums(void* memory, std::int64_t capacity) {
    WorkspaceLayout workspace(memory);
    of_tiles = workspace.take<std::uint64_t>(ceil_div(capacity, kTile));
    next_tile = workspace.take<unsigned>(1);
    bytes = workspace.bytes();
  }
};

/// Computes the offsets of one tile of lengths per block.
__global__ void __launch_bounds__(kLengthThreads)
    offsets_kernel(LengthsToOffsetsArgs args, TileSums sums) {
  using Sum = TileCount<std::uint64_t>;
  __shared__ LengthTile::Memory memory;
  __shared__ std::uint64_t before;
  auto const number = take_tile(sums.next_tile);
  LengthTile tile(args, number * kTile);
  auto const own = static_cast<std::uint64_t>(tile.add(memory));
  if (threadIdx.x < 32) {
    auto* const told = sums.of_tiles + number;
    if (threadIdx.x == 0) {
      Sum::tell(told, own, number == 0 ? Sum::kUpToHere : Sum::kOwn);
    }
    auto const of_tiles = warp_count_before(sums.of_tiles, number);
    if (threadIdx.x == 0) {
      if (number > 0) {
        Sum::tell(told, of_tiles + own, Sum::kUpToHere);
      }
      before = of_tiles;
    }
  }
  __syncthreads();
  tile.store(args, static_cast<std::int64_t>(before));
  if (threadIdx.x == 0 && (number + 1) * kTile >= args.capacity) {
    args.offsets[args.capacity] = static_cast<std::int64_t>(before + own);
  }
}

__global__ void __launch_bounds__(kLengthThreads)
    offsets_to_lengths_kernel(OffsetsToLengthsArgs args) {
  auto const i = grid_thread();
  if (i < args.count) {
    args.lengths[i] = length_between(args.offsets[i], args.offsets[i + 1]);
  }
}

}  // namespace

std::size_t lengths_to_offsets_workspace_bytes(CudaStream, std::int64_t capacity) {
  return capacity <= kBlockCapacity ? 0 : TileSums(nullptr, capacity).bytes;
}

void lengths_to_offsets(CudaStream stream, LengthsToOffsetsArgs const& args) {
  if (args.capacity <= kBlockCapacity) {
    few_offsets_kernel<<<1, kLengthThreads, 0, stream>>>(args);
  } else {
    TileSums const sums(args.workspace, args.capacity);
    check_cuda(cudaMemsetAsync(sums.of_tiles, 0, sums.bytes, stream), "cudaMemsetAsync");
    offsets_kernel<<<grid_for(args.capacity, kTile), kLengthThreads, 0, stream>>>(args, sums);
  }
  check_launch("lengths_to_offsets");
}

void offsets_to_lengths(CudaStream stream, OffsetsToLengthsArgs const& args) {
  if (args.count > 0) {
    offsets_to_lengths_kernel<<<grid_for(args.count, kLengthThreads), kLengthThreads, 0, stream>>>(
        args);
    check_launch("offsets_to_lengths");
  }
}

}  // namespace msstream::ops::kernels
