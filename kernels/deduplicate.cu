// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "deduplicate_block.cuh"

#include <msstream/ops/kernels/embedding.hpp>

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kBlockCapacity = 4096;  ///< what one block sorts
constexpr std::size_t kAlignment = 256;

constexpr std::size_t aligned(std::size_t bytes) {
  return ceil_div(bytes, kAlignment) * kAlignment;
}

/// What CUB's sort needs: a quarter of a KiB of look-back state a tile of the
/// sort, whose tiles hold 1,000 places and more, and a few histograms. CUB refuses with an error
/// what is too little; asking it would ask the device.
constexpr std::size_t temporary_bytes(std::int64_t capacity) {
  return aligned(static_cast<std::size_t>(capacity)) + (std::size_t{1} << 18U);
}

/// The parts of the workspace, laid out one after the other; sized for 64-bit keys.
struct Workspace {
  std::byte* keys[2];
  unsigned* positions[2];
  std::byte* temporary;

  Workspace(void* memory, std::int64_t capacity) {
    auto* next = static_cast<std::byte*>(memory);
    auto const take = [&](std::size_t bytes) {
      auto* const taken = next;
      next += aligned(bytes);
      return taken;
    };
    auto const count = static_cast<std::size_t>(capacity);
    for (auto& part : keys) {
      part = take(count * sizeof(std::uint64_t));
    }
    for (auto& part : positions) {
      part = reinterpret_cast<unsigned*>(take(count * sizeof(unsigned)));
    }
    temporary = next;
  }

  static std::size_t bytes(std::int64_t capacity) {
    auto const count = static_cast<std::size_t>(capacity);
    return 2 * aligned(count * sizeof(std::uint64_t)) + 2 * aligned(count * sizeof(unsigned)) +
           temporary_bytes(capacity);
  }
};

template <class Key>
__global__ void make_keys_kernel(DeduplicateArgs args, Key* keys, unsigned* positions) {
  auto const place = grid_thread();
  if (place < args.bags.capacity) {
    keys[place] = sort_key<Key>(args, existing_places(args.bags), place);
    positions[place] = static_cast<unsigned>(place);
  }
}

/// The sorted places in equal parts, each counted and then numbered by one block; few enough parts
/// that each block can add up the counts before its own.
struct Tiling {
  static constexpr int kItems = 8;
  static constexpr std::int64_t kTurn = kThreads * kItems;  ///< what a block takes at once
  static constexpr std::int64_t kMostTiles = 2048;

  std::int64_t tile;
  std::int64_t tiles;

  explicit Tiling(std::int64_t capacity)
      : tile(ceil_div(ceil_div(capacity, kMostTiles), kTurn) * kTurn),
        tiles(ceil_div(capacity, tile)) {}
};

/// A thread's neighbouring sorted keys, and which of them begin a unique id.
template <class Key>
struct SortedKeys {
  Key at[Tiling::kItems];
  bool is_first[Tiling::kItems];
  unsigned firsts = 0;

  /// Keys at [begin, begin + kItems); `rows` stands for those beyond `count`.
  __device__ SortedKeys(Key const* keys, std::int64_t begin, std::int64_t count, Key rows) {
    Key previous = begin > 0 && begin < count ? keys[begin - 1] : rows;
#pragma unroll
    for (int i = 0; i < Tiling::kItems; ++i) {
      at[i] = begin + i < count ? keys[begin + i] : rows;
    }
#pragma unroll
    for (int i = 0; i < Tiling::kItems; ++i) {
      is_first[i] = at[i] != rows && at[i] != previous;
      firsts += is_first[i] ? 1 : 0;
      previous = at[i];
    }
  }
};

using BlockCount = cub::BlockReduce<unsigned, kThreads>;
using BlockNumbering = cub::BlockScan<unsigned, kThreads>;

template <class Key>
__global__ void __launch_bounds__(kThreads) count_firsts_kernel(
    Key const* keys, std::int64_t count, Key rows, Tiling tiling, unsigned* firsts_of_tiles) {
  __shared__ typename BlockCount::TempStorage shared;
  auto const end = min((std::int64_t{blockIdx.x} + 1) * tiling.tile, count);
  unsigned firsts = 0;
  for (auto turn = std::int64_t{blockIdx.x} * tiling.tile; turn < end; turn += Tiling::kTurn) {
    firsts += SortedKeys<Key>(keys, turn + threadIdx.x * Tiling::kItems, end, rows).firsts;
  }
  auto const total = BlockCount(shared).Sum(firsts);
  if (threadIdx.x == 0) {
    firsts_of_tiles[blockIdx.x] = total;
  }
}

/// The number of unique ids that begin in the tiles before this block's; all threads get it.
__device__ inline unsigned firsts_before(unsigned const* firsts_of_tiles) {
  __shared__ typename BlockCount::TempStorage shared;
  __shared__ unsigned before;
  unsigned firsts = 0;
  for (unsigned tile = threadIdx.x; tile < blockIdx.x; tile += kThreads) {
    firsts += firsts_of_tiles[tile];
  }
  auto const total = BlockCount(shared).Sum(firsts);
  if (threadIdx.x == 0) {
    before = total;
  }
  __syncthreads();
  return before;
}

template <class Key>
__global__ void __launch_bounds__(kThreads) write_groups_kernel(DeduplicateArgs args,
                                                                Key const* keys,
                                                                unsigned const* positions,
                                                                Tiling tiling,
                                                                unsigned const* firsts_of_tiles) {
  __shared__ typename BlockNumbering::TempStorage shared;
  auto const rows = static_cast<Key>(args.rows);
  auto const count = args.bags.capacity;
  auto const end = min((std::int64_t{blockIdx.x} + 1) * tiling.tile, count);
  unsigned before = firsts_before(firsts_of_tiles);
  for (auto turn = std::int64_t{blockIdx.x} * tiling.tile; turn < end; turn += Tiling::kTurn) {
    auto const begin = turn + threadIdx.x * Tiling::kItems;
    SortedKeys<Key> const sorted(keys, begin, end, rows);
    unsigned begun = 0;
    unsigned begun_in_turn = 0;
    BlockNumbering(shared).ExclusiveSum(sorted.firsts, begun, begun_in_turn);
    begun += before;
#pragma unroll
    for (int i = 0; i < Tiling::kItems; ++i) {
      auto const k = begin + i;
      if (k >= end) {
        break;
      }
      auto const place = static_cast<std::int32_t>(k);
      bool const is_valid = sorted.at[i] != rows;
      if (sorted.is_first[i]) {
        args.unique_ids[begun] = static_cast<std::int64_t>(sorted.at[i]);
        args.starts[begun++] = place;
      }
      args.ranks[k] = is_valid ? static_cast<std::int32_t>(begun) - 1 : -1;
      if (is_valid) {
        args.positions[k] = static_cast<std::int32_t>(positions[k]);
      }
      bool const is_last_valid = is_valid && (k + 1 == count || keys[k + 1] == rows);
      bool const none_is_valid = k == 0 && !is_valid;
      if (is_last_valid || none_is_valid) {
        args.starts[begun] = is_valid ? place + 1 : 0;
        *args.unique_count = begun;
      }
    }
    before += begun_in_turn;
    __syncthreads();  // the numbering's memory is used again
  }
}

template <class Key>
void launch_device(CudaStream stream, DeduplicateArgs const& args, int key_bits) {
  auto const capacity = args.bags.capacity;
  auto const count = static_cast<int>(capacity);
  auto const blocks = grid_for(capacity, kThreads);
  Workspace const workspace(args.workspace, capacity);
  auto const keys_at = [&](int i) { return reinterpret_cast<Key*>(workspace.keys[i]); };
  cub::DoubleBuffer<Key> keys(keys_at(0), keys_at(1));
  cub::DoubleBuffer<unsigned> positions(workspace.positions[0], workspace.positions[1]);
  auto temporary = temporary_bytes(capacity);

  make_keys_kernel<<<blocks, kThreads, 0, stream>>>(args, keys.Current(), positions.Current());
  check_launch("deduplicate, keys");
  check_cuda(cub::DeviceRadixSort::SortPairs(
                 workspace.temporary, temporary, keys, positions, count, 0, key_bits, stream),
             "cub::DeviceRadixSort::SortPairs");
  auto const rows = static_cast<Key>(args.rows);
  Tiling const tiling(capacity);
  auto const tiles = static_cast<unsigned>(tiling.tiles);
  // The keys' other buffer has served.
  auto* const firsts_of_tiles = reinterpret_cast<unsigned*>(keys.Alternate());
  count_firsts_kernel<<<tiles, kThreads, 0, stream>>>(
      keys.Current(), capacity, rows, tiling, firsts_of_tiles);
  check_launch("deduplicate, counts");
  write_groups_kernel<<<tiles, kThreads, 0, stream>>>(
      args, keys.Current(), positions.Current(), tiling, firsts_of_tiles);
  check_launch("deduplicate, groups");
}

template <class Key>
void launch_block(CudaStream stream, DeduplicateArgs const& args, int key_bits) {
  auto const capacity = args.bags.capacity;
  if (capacity <= 512) {
    deduplicate_block_kernel<Key, 256, 2><<<1, 256, 0, stream>>>(args, key_bits);
  } else if (capacity <= 2048) {
    deduplicate_block_kernel<Key, 512, 4><<<1, 512, 0, stream>>>(args, key_bits);
  } else {
    deduplicate_block_kernel<Key, 1024, 4><<<1, 1024, 0, stream>>>(args, key_bits);
  }
  check_launch("deduplicate, one block");
}

template <class Key>
void launch(CudaStream stream, DeduplicateArgs const& args) {
  // `rows` itself is a key: that of the places without an id.
  auto const key_bits =
      std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(args.rows))));
  if (args.bags.capacity <= kBlockCapacity) {
    launch_block<Key>(stream, args, key_bits);
  } else {
    launch_device<Key>(stream, args, key_bits);
  }
}

}  // namespace

std::size_t deduplicate_workspace_bytes(CudaStream, std::int64_t capacity) {
  return capacity <= kBlockCapacity ? 0 : Workspace::bytes(capacity);
}

void deduplicate(CudaStream stream, DeduplicateArgs const& args) {
  require(args.bags.capacity <= std::numeric_limits<std::int32_t>::max(),
          "deduplicate: a capacity of ",
          args.bags.capacity,
          " ids is not below 2^31");
  if (args.rows <= std::int64_t{std::numeric_limits<std::uint32_t>::max()}) {
    launch<std::uint32_t>(stream, args);
  } else {
    launch<std::uint64_t>(stream, args);
  }
}

}  // namespace msstream::ops::kernels
