// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "existing_places.hpp"
#include "tiles.cuh"

#include <msstream/ops/kernels/lengths.hpp>

#include <cub/block/block_exchange.cuh>
#include <cub/block/block_scan.cuh>
#include <cuda/std/functional>

namespace msstream::ops::kernels {
namespace {

constexpr int kItems = Tiles::kItems;
/// What one block takes in a few turns: small batches are bound by launches, not by work.
constexpr std::int64_t kBlockCapacity = 4 * Tiles::kTurn;
constexpr int kLengthThreads = 256;

using Plus = ::cuda::std::plus<std::int64_t>;

__device__ std::int64_t length_at(LengthsToOffsetsArgs const& args,
                                  std::int64_t place,
                                  std::int64_t existing) {
  return place < existing ? max(args.lengths.at(place), std::int64_t{0}) : 0;
}

__global__ void __launch_bounds__(kTileThreads)
    add_lengths_kernel(LengthsToOffsetsArgs args, Tiles tiles, std::int64_t* totals) {
  auto const existing = existing_places(args.count, args.capacity);
  auto const end = tiles.end(existing);
  std::int64_t sum = 0;
#pragma unroll kItems
  for (auto place = tiles.begin() + threadIdx.x; place < end; place += kTileThreads) {
    sum += length_at(args, place, existing);
  }
  store_total(sum, Plus{}, totals);
}

/// Threads add up neighbouring lengths, but read and write side by side.
__global__ void __launch_bounds__(kTileThreads)
    write_offsets_kernel(LengthsToOffsetsArgs args, Tiles tiles, std::int64_t const* totals) {
  using Scan = cub::BlockScan<std::int64_t, kTileThreads>;
  using Exchange = cub::BlockExchange<std::int64_t, kTileThreads, kItems>;
  __shared__ typename Scan::TempStorage scan_memory;
  __shared__ typename Exchange::TempStorage exchange_memory;
  auto const existing = existing_places(args.count, args.capacity);
  auto const end = tiles.end(args.capacity);
  std::int64_t items[kItems];
  auto const load = [&](std::int64_t first) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      items[i] = length_at(args, first + i * kTileThreads, existing);
    }
  };
  load(tiles.begin() + threadIdx.x);  // before what is waited for next
  auto before = total_before(totals, std::int64_t{0}, Plus{});
  for (auto turn = tiles.begin(); turn < end; turn += Tiles::kTurn) {
    auto const first = turn + threadIdx.x;
    Exchange(exchange_memory).StripedToBlocked(items);
    std::int64_t of_turn = 0;
    Scan(scan_memory).ExclusiveSum(items, items, of_turn);
    __syncthreads();  // the lengths have been exchanged
    Exchange(exchange_memory).BlockedToStriped(items);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (auto const place = first + i * kTileThreads; place < args.capacity) {
        args.offsets[place] = before + items[i];
      }
    }
    before += of_turn;
    load(first + Tiles::kTurn);
    __syncthreads();  // the memory is used again
  }
  if (threadIdx.x == 0 && end == args.capacity) {
    args.offsets[args.capacity] = before;
  }
}

__global__ void __launch_bounds__(kLengthThreads)
    offsets_to_lengths_kernel(OffsetsToLengthsArgs args) {
  auto const i = grid_thread();
  if (i < args.count) {
    args.lengths[i] = args.offsets[i + 1] - args.offsets[i];
  }
}

}  // namespace

std::size_t lengths_to_offsets_workspace_bytes(CudaStream, std::int64_t capacity) {
  return capacity <= kBlockCapacity
             ? 0
             : static_cast<std::size_t>(Tiles(capacity).count) * sizeof(std::int64_t);
}

void lengths_to_offsets(CudaStream stream, LengthsToOffsetsArgs const& args) {
  auto const tiles =
      args.capacity <= kBlockCapacity ? Tiles::one(args.capacity) : Tiles(args.capacity);
  auto* const totals = static_cast<std::int64_t*>(args.workspace);
  auto const blocks = static_cast<unsigned>(tiles.count);
  if (tiles.count > 1) {
    add_lengths_kernel<<<blocks, kTileThreads, 0, stream>>>(args, tiles, totals);
    check_launch("lengths_to_offsets, totals");
  }
  write_offsets_kernel<<<blocks, kTileThreads, 0, stream>>>(args, tiles, totals);
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
