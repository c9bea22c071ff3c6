// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/workspace_layout.hpp"
#include "ids/sort_tiles.cuh"
#include "ids/unique_groups.cuh"
#include "ids/unique_keys.cuh"

#include <cub/block/block_radix_sort.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// The sort of unique(). Ids are sorted by the bits in which they can differ: the bits of numbers
// below the given bound or, without a bound, the bits that the device finds to differ. In the
// latter case as many passes are launched as the longest ids need, and passes that have nothing to
// do end at once. A hash table would find the distinct ids with fewer bytes of traffic, but only
// the device knows how many there are, so sorting the distinct ids would still take launches for
// the whole capacity.
namespace msstream::ops::kernels {

inline constexpr std::int64_t kUniqueBlockCapacity = 4096;  ///< the most ids that one block sorts

/// The capacity up to which the inverse of unique() is written directly in 64 bits. A larger
/// inverse would not stay in the L2 cache until its sectors are whole, so it is written as 32 bits
/// first.
inline constexpr std::int64_t kMostForWideInverse = std::int64_t{1} << 21U;

/// The arrays of the workspace of unique(), one after the other. Arrays that a problem does not
/// need are empty. Keys that fit in 32 bits are at the beginning of the memory for long keys.
struct UniqueWorkspace {
  std::uint64_t* keys[2];
  unsigned* positions[2];
  Begun* totals;
  std::int32_t* first_places;
  unsigned* group_counts;
  std::int32_t* numbers;  ///< group numbers: at first positions only, or at all positions
  unsigned* pass_counts[2];
  /// The members from `met` on (`met`, `bins`, `next_tiles`, `pass_counts[0]`) must be zero before
  /// a sort that uses several blocks.
  MetBits* met;
  unsigned* bins;
  unsigned* next_tiles;
  std::size_t zero_bytes;
  std::size_t bytes;

  UniqueWorkspace(void* memory, UniqueProblem const& problem) {
    WorkspaceLayout layout(memory);
    auto const capacity = problem.capacity;
    bool const is_small = capacity <= kUniqueBlockCapacity;
    bool const is_short = KeyCoding(problem).is_short();
    for (int i = 0; i < 2; ++i) {
      auto const count = is_small && i > 0 ? 0 : capacity;
      keys[i] = layout.take<std::uint64_t>(is_short ? ceil_div<std::int64_t>(count, 2) : count);
      positions[i] = layout.take<unsigned>(count);
    }
    totals = layout.take<Begun>(Tiles(capacity).count);
    auto const occurring = problem.order == UniqueOrder::first_occurrence ? capacity : 0;
    first_places = layout.take<std::int32_t>(occurring);
    group_counts = layout.take<unsigned>(occurring);
    bool const has_numbers = occurring > 0 || capacity > kMostForWideInverse;
    numbers = layout.take<std::int32_t>(has_numbers ? capacity : 0);
    std::int64_t const passes = is_small ? 0 : sizeof(std::uint64_t);
    // The counters are allocated for the tiles of long keys. If few bytes vary, keys become short
    // and have fewer tiles.
    auto const tiles =
        is_short ? tiles_of<std::uint32_t>(capacity) : tiles_of<std::uint64_t>(capacity);
    auto const counts = is_small ? 0 : tiles * Digits::kBins;
    pass_counts[1] = layout.take<unsigned>(counts);
    auto const before = layout.bytes();
    met = layout.take<MetBits>(is_small ? 0 : 1);
    bins = layout.take<unsigned>(passes * Digits::kBins);
    next_tiles = layout.take<unsigned>(passes);
    pass_counts[0] = layout.take<unsigned>(counts);
    bytes = layout.bytes();
    zero_bytes = bytes - before;
  }

 private:
  template <class Key>
  static std::int64_t tiles_of(std::int64_t capacity) {
    return with_sort_tile<Key, MediumSortTile>(
        capacity, [&]<class Tile>(Tile) { return ceil_div<std::int64_t>(capacity, Tile::kKeys); });
  }
};

/// The bits of keys by which they are sorted: [begin, end).
struct BitRange {
  int begin;
  int end;
};
/// Returns the range of the bits in which the keys of a block differ, at least one bit. `mine` are
/// the bits of the calling thread's keys. All threads of the block must call varying_bits()
/// together.
template <int Threads>
__device__ BitRange varying_bits(MetBits const& mine) {
  using Reduce = cub::BlockReduce<MetBits, Threads>;
  __shared__ typename Reduce::TempStorage shared;
  __shared__ unsigned long long varying;
  auto const of_block = Reduce(shared).Reduce(mine, MetBits::Join{});
  if (threadIdx.x == 0) {
    auto const bits = of_block.set & of_block.clear;
    varying = bits != 0 ? bits : 1;
  }
  __syncthreads();
  return {__ffsll(static_cast<long long>(varying)) - 1,
          64 - __clzll(static_cast<long long>(varying))};
}

/// Makes and sorts the keys of ids with one block, because the time of small batches is the time of
/// launches, not of work. Without a bound of the ids, the block first finds the bits in which they
/// differ. Positions that do not exist have the greatest key, and the sort is stable, so that they
/// stay after existing ones that are equal in the sorted bits.
template <class Key, int Threads, int Items>
__global__ void __launch_bounds__(Threads) sort_by_block_kernel(UniqueArgs const args,
                                                                KeyCoding const coding,
                                                                Key* keys,
                                                                unsigned* places) {
  using Sort = cub::BlockRadixSort<Key, Threads, Items, unsigned>;
  __shared__ typename Sort::TempStorage shared;
  auto const existing = existing_ids(args);
  auto const first = threadIdx.x * Items;
  Key own_keys[Items];
  unsigned own_places[Items];
  MetBits met{0, 0};
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    bool const exists = first + i < existing;
    auto const key = exists ? coding.key_of(args.ids.at(first + i)) : coding.last;
    own_places[i] = first + i;
    own_keys[i] = static_cast<Key>(key);
    if (exists) {
      met = MetBits::Join{}(met, {key, ~key});
    }
  }
  BitRange const bits =
      coding.last_is_no_id ? BitRange{0, coding.bits} : varying_bits<Threads>(met);
  Sort(shared).Sort(own_keys, own_places, bits.begin, bits.end);
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    if (first + i < args.problem.capacity) {
      keys[first + i] = own_keys[i];
      places[first + i] = own_places[i];
    }
  }
}

template <class Key>
SortedIds<Key> sort_by_block(CudaStream stream,
                             UniqueArgs const& args,
                             KeyCoding const& coding,
                             UniqueWorkspace const& workspace) {
  auto* const keys = reinterpret_cast<Key*>(workspace.keys[0]);
  auto* const places = workspace.positions[0];
  if (args.problem.capacity <= 512) {
    sort_by_block_kernel<Key, 256, 2><<<1, 256, 0, stream>>>(args, coding, keys, places);
  } else if (args.problem.capacity <= 2048) {
    sort_by_block_kernel<Key, 512, 4><<<1, 512, 0, stream>>>(args, coding, keys, places);
  } else {
    sort_by_block_kernel<Key, 1024, 4><<<1, 1024, 0, stream>>>(args, coding, keys, places);
  }
  check_launch("unique, one block's sort");
  return {keys, places};
}

/// Sorts keys by the varying byte number `pass`. Does nothing if there are fewer varying bytes or
/// if keys are not stored as type Key.
template <class Key, int Threads, int Items, bool IsFirst>
__global__ void __launch_bounds__(Threads, 512 / Threads)
    sort_varying_pass_kernel(SortPass<Key, unsigned> pass, MetBits const* met) {
  VaryingBytes const bytes(*met);
  constexpr bool kIsPacked = sizeof(Key) == sizeof(std::uint32_t);
  if (bytes.fit_in_word() != kIsPacked || pass.pass >= bytes.count()) {
    return;
  }
  pass.pass = kIsPacked ? pass.pass : bytes.at(pass.pass);
  sort_pass<Key, unsigned, Threads, Items, IsFirst, false>(pass);
}

/// Returns the arguments of a sorting pass from one half of the workspace to the other. The pass
/// requires that all digits have been counted.
template <class Key>
SortPass<Key, unsigned> pass_of(UniqueArgs const& args,
                                UniqueWorkspace const& workspace,
                                Digits const& digits,
                                int pass) {
  int const from = pass % 2;
  int const to = 1 - from;
  return {reinterpret_cast<Key*>(workspace.keys[from]),
          workspace.positions[from],
          reinterpret_cast<Key*>(workspace.keys[to]),
          workspace.positions[to],
          args.problem.capacity,
          digits,
          pass,
          Key{0},
          workspace.bins + pass * Digits::kBins,
          workspace.pass_counts[from],
          workspace.pass_counts[to],
          workspace.next_tiles + pass,
          args.count};
}

/// Calls launch(tile, is_first) for a sorting pass, with the shape of the tiles for the number of
/// keys.
template <class Key, class Launch>
void with_pass_tiles(SortPass<Key, unsigned> const& pass, Launch const& launch) {
  with_sort_tile<Key, MediumSortTile>(pass.count, [&](auto tile) {
    pass.pass == 0 ? launch(tile, std::true_type{}) : launch(tile, std::false_type{});
  });
  check_launch("unique, sort");
}

inline unsigned key_blocks(std::int64_t capacity) {
  return std::min(kMostKeyBlocks, grid_for(capacity, kKeyThreads * kKeysInFlight));
}

inline SortedIds<std::uint32_t> sort_short_keys(CudaStream stream,
                                                UniqueArgs const& args,
                                                KeyCoding const& coding,
                                                UniqueWorkspace const& workspace) {
  using Key = std::uint32_t;
  auto const capacity = args.problem.capacity;
  Digits const digits(coding.bits);
  make_short_keys_kernel<<<key_blocks(capacity), kKeyThreads, 0, stream>>>(
      args, coding, digits, reinterpret_cast<Key*>(workspace.keys[0]), workspace.bins);
  check_launch("unique, keys");
  for (int p = 0; p < digits.passes; ++p) {
    auto const pass = pass_of<Key>(args, workspace, digits, p);
    with_pass_tiles(pass, [&]<class T, class First>(T, First) {
      sort_pass_kernel<Key, unsigned, T::kThreads, T::kItems, First::value, false>
          <<<grid_for(capacity, T::kKeys), T::kThreads, 0, stream>>>(pass);
    });
  }
  int const sorted = digits.passes % 2;
  return {reinterpret_cast<Key*>(workspace.keys[sorted]), workspace.positions[sorted]};
}

template <class Key>
void sort_varying_bytes(CudaStream stream,
                        UniqueArgs const& args,
                        UniqueWorkspace const& workspace) {
  auto const capacity = args.problem.capacity;
  Digits const digits(8 * sizeof(Key));
  for (int p = 0; p < digits.passes; ++p) {
    auto const pass = pass_of<Key>(args, workspace, digits, p);
    with_pass_tiles(pass, [&]<class T, class First>(T, First) {
      sort_varying_pass_kernel<Key, T::kThreads, T::kItems, First::value>
          <<<grid_for(capacity, T::kKeys), T::kThreads, 0, stream>>>(pass, workspace.met);
    });
  }
}

inline SortedVaryingIds sort_long_keys(CudaStream stream,
                                       UniqueArgs const& args,
                                       KeyCoding const& coding,
                                       UniqueWorkspace const& workspace) {
  auto const blocks = key_blocks(args.problem.capacity);
  meet_bits_kernel<<<blocks, kKeyThreads, 0, stream>>>(args, coding, workspace.met);
  check_launch("unique, bits");
  make_long_keys_kernel<<<blocks, kKeyThreads, 0, stream>>>(
      args, coding, workspace.met, workspace.keys[0], workspace.bins);
  check_launch("unique, keys");
  sort_varying_bytes<std::uint32_t>(stream, args, workspace);
  sort_varying_bytes<std::uint64_t>(stream, args, workspace);
  return {{workspace.keys[0], workspace.keys[1]},
          {workspace.positions[0], workspace.positions[1]},
          workspace.met};
}

}  // namespace msstream::ops::kernels
