// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "common/look_back.cuh"

#include <cub/block/block_scan.cuh>

#include <cstdint>

/// A radix sort of keys together with their original positions. One launch counts all digits, then
/// one launch per digit moves keys and positions, lowest digit first (Adinets & Merrill, Onesweep,
/// 2022).
namespace msstream::ops::kernels {

/// The division of a key into digits, lowest first.
struct Digits {
  static constexpr int kBins = 256;
  static constexpr int kBits = 8;

  int passes;
  int bits;

  explicit Digits(int key_bits)
      : passes(ceil_div(key_bits, kBits)), bits(ceil_div(key_bits, passes)) {}

  template <class Key>
  __device__ unsigned of(Key key, int pass) const {
    return static_cast<unsigned>(key >> (pass * bits)) & ((1U << bits) - 1);
  }
};

inline constexpr int kKeyThreads = 256;
inline constexpr int kKeysInFlight = 4;
inline constexpr unsigned kMostKeyBlocks = 528;  ///< a few per multiprocessor of a large GPU

/// Counters in shared memory of the digits that the kKeyThreads threads of a block have met in each
/// pass of a radix sort. All threads of the block must call every function but count().
template <int MostPasses>
class DigitCounts {
 public:
  __device__ void clear(int passes) {
    for (int i = static_cast<int>(threadIdx.x); i < passes * Digits::kBins; i += kKeyThreads) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        counters_[set][i] = 0;
      }
    }
    __syncthreads();
  }
  __device__ void count(int pass, unsigned digit) {
    atomicAdd(&counters_[threadIdx.x % kSets][pass * Digits::kBins + digit], 1U);
  }
  /// Adds the counts of all digits to `bins` [passes, 256] in device memory.
  __device__ void add_to(unsigned* bins, int passes) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < passes * Digits::kBins; i += kKeyThreads) {
      unsigned count = 0;
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        count += counters_[set][i];
      }
      if (count > 0) {
        atomicAdd(bins + i, count);
      }
    }
  }

 private:
  // Two sets of counters are used because lanes that count the same frequent digit wait for each
  // other.
  static constexpr int kSets = 2;
  unsigned counters_[kSets][MostPasses * Digits::kBins];
};

/// One pass of a radix sort, which sorts (key, position) pairs by one digit and keeps the order of
/// equal digits. A tile counts its digits, publishes the counts for later tiles, and reads the
/// counts of the tiles before it.
template <class Key, class Word>
struct SortPass {
  Key const* keys;
  unsigned const* places;  ///< unused in the first pass, in which key i has position i
  Key* sorted_keys;
  unsigned* sorted_places;
  std::int64_t count;
  Digits digits;
  int pass;
  Key no_id;             ///< key whose positions the last pass does not write
  unsigned const* bins;  ///< [256]: number of occurrences of each digit
  Word* counts;          ///< [tiles, 256], zeros before the pass
  Word* next_counts;     ///< [tiles, 256], set to zeros for the next pass
  unsigned* next_tile;   ///< number of the next tile; must be 0 before the pass
  /// The number of keys that exist, a device scalar; null if all keys exist.
  std::int64_t const* existing = nullptr;
};

/// Returns the mask of the lanes of the warp that have the same digit as the calling lane.
__device__ inline unsigned lanes_with(unsigned digit, int bits) {
  unsigned same = kAllLanes;
  for (int bit = 0; bit < bits; ++bit) {
    bool const is_set = (digit >> bit & 1U) != 0;
    unsigned const set = __ballot_sync(kAllLanes, is_set);
    same &= is_set ? set : ~set;
  }
  return same;
}

// Sorts one tile of keys by one digit. All threads of a block must call sort_pass(). The tile's
// shared memory holds one after the other: the number of times that each warp has met each digit,
// the keys in the order of the output, and their positions. A warp has 32 * Items neighbouring
// keys, and each lane has every 32nd of them.
template <class Key, class Word, int Threads, int Items, bool IsFirst, bool IsLast>
__device__ void sort_pass(SortPass<Key, Word> const& pass) {
  static_assert(Threads >= Digits::kBins);
  constexpr int kWarps = Threads / 32;
  constexpr int kTile = Threads * Items;
  using Scan = cub::BlockScan<unsigned, Threads>;
  using Count = TileCount<Word>;
  __shared__ typename Scan::TempStorage scan[2];
  /// The index in the sorted tile of the first key with each digit.
  __shared__ unsigned firsts[Digits::kBins];
  __shared__ unsigned shifts[Digits::kBins];  ///< for each digit, distance from the index in the
                                              ///< tile to the one in the output
  __shared__ union {
    unsigned met[kWarps][Digits::kBins];
    Key keys[kTile];
    unsigned places[kTile];
  } shared;

  int const thread = static_cast<int>(threadIdx.x);
  int const warp = thread / 32;
  int const lane = thread % 32;
  unsigned const lower_lanes = (1U << lane) - 1;
  bool const has_bin = thread < Digits::kBins;
  for (int bin = lane; bin < Digits::kBins; bin += 32) {
    shared.met[warp][bin] = 0;
  }
  unsigned const tile = take_tile(pass.next_tile);
  auto const begin = static_cast<std::int64_t>(tile) * kTile;
  auto const count = existing_places(pass.existing, pass.count);
  if (begin >= count) {
    return;
  }
  int const in_tile = static_cast<int>(min(std::int64_t{kTile}, count - begin));

  // A tile with fewer keys is filled up with the highest key, which the sort leaves at the end.
  Key keys[Items];
  unsigned places[Items];
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    int const k = (warp * Items + i) * 32 + lane;
    keys[i] = k < in_tile ? pass.keys[begin + k] : static_cast<Key>(~Key{0});
    if constexpr (IsFirst) {
      places[i] = static_cast<unsigned>(begin) + static_cast<unsigned>(k);
    } else {
      places[i] = k < in_tile ? pass.places[begin + k] : 0;
    }
  }
  if (!IsLast && has_bin) {
    pass.next_counts[static_cast<std::int64_t>(tile) * Digits::kBins + thread] = 0;
  }
  unsigned bin_begin = 0;
  Scan(scan[0]).ExclusiveSum(has_bin ? pass.bins[thread] : 0U, bin_begin);

  unsigned to[Items];
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    unsigned const digit = pass.digits.of(keys[i], pass.pass);
    unsigned const same = lanes_with(digit, pass.digits.bits);
    int const leader = __ffs(static_cast<int>(same)) - 1;
    unsigned met = 0;
    if (lane == leader) {
      met = shared.met[warp][digit];
      shared.met[warp][digit] = met + __popc(same);
    }
    to[i] = __shfl_sync(kAllLanes, met, leader) + __popc(same & lower_lanes);
    __syncwarp();
  }
  __syncthreads();

  Word* const counts = pass.counts + thread;
  unsigned own = 0;
  if (has_bin) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      unsigned const met = shared.met[w][thread];
      shared.met[w][thread] = own;
      own += met;
    }
    Count::tell(counts + static_cast<std::int64_t>(tile) * Digits::kBins,
                own,
                tile == 0 ? Count::kUpToHere : Count::kOwn);
  }
  unsigned first = 0;
  Scan(scan[1]).ExclusiveSum(own, first);
  if (has_bin) {
    firsts[thread] = first;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    unsigned const digit = pass.digits.of(keys[i], pass.pass);
    to[i] += firsts[digit] + shared.met[warp][digit];
  }
  __syncthreads();  // the keys reuse the memory of the counters from here on
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    shared.keys[to[i]] = keys[i];
  }
  if (has_bin) {
    auto const before = count_before(counts, tile, Digits::kBins);
    if (tile > 0) {
      Count::tell(
          counts + static_cast<std::int64_t>(tile) * Digits::kBins, before + own, Count::kUpToHere);
    }
    shifts[thread] = bin_begin + static_cast<unsigned>(before) - first;
  }
  __syncthreads();

  constexpr unsigned kNowhere = ~0U;
  unsigned outputs[Items];
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    int const k = i * Threads + thread;
    outputs[i] = kNowhere;
    if (k < in_tile) {
      auto const key = shared.keys[k];
      auto const output = shifts[pass.digits.of(key, pass.pass)] + static_cast<unsigned>(k);
      pass.sorted_keys[output] = key;
      outputs[i] = IsLast && key == pass.no_id ? kNowhere : output;
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    shared.places[to[i]] = places[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    if (outputs[i] != kNowhere) {
      pass.sorted_places[outputs[i]] = shared.places[i * Threads + thread];
    }
  }
}

template <class Key, class Word, int Threads, int Items, bool IsFirst, bool IsLast>
__global__ void __launch_bounds__(Threads, 512 / Threads)
    sort_pass_kernel(SortPass<Key, Word> const pass) {
  sort_pass<Key, Word, Threads, Items, IsFirst, IsLast>(pass);
}

}  // namespace msstream::ops::kernels
