// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"

#include <cuda/atomic>

#include <cstdint>

namespace msstream::ops::kernels {

/// A running count that a tile publishes for the tiles after it, in one word, so that no fence is
/// needed. The word holds zero (nothing yet), the tile's own count, or the count up to and
/// including the tile. Of a count too large for a word only the lower bits are kept, so that no
/// tile waits forever. Tiles take numbers in the order in which they start, so that each waits only
/// for tiles that are running (Merrill & Garland, Single-pass Parallel Prefix Scan with Decoupled
/// Look-back, 2016).
template <class Word>
struct TileCount {
  static constexpr int kBits = static_cast<int>(sizeof(Word)) * 8;
  /// The flag of a count of all tiles up to the one that publishes it. Counts are smaller than the
  /// flag.
  static constexpr Word kUpToHere = Word{1} << (kBits - 1);
  static constexpr Word kOwn = 1;

  /// Returns the count stored in a published word, without its flag. The word must not be zero.
  static __device__ Word of(Word word) {
    return word - ((word & kUpToHere) != 0 ? kUpToHere : kOwn);
  }

  static __device__ void tell(Word* place, Word count, Word kind) {
    cuda::atomic_ref<Word, cuda::thread_scope_device>(*place).store(
        (count & (kUpToHere - 1)) + kind, cuda::memory_order_relaxed);
  }
  static __device__ Word look(Word* place) {
    return cuda::atomic_ref<Word, cuda::thread_scope_device>(*place).load(
        cuda::memory_order_relaxed);
  }
};

/// Takes the number of the next tile from a counter in device memory, and returns it to all threads
/// of the block.
__device__ inline unsigned take_tile(unsigned* next) {
  __shared__ unsigned tile;
  if (threadIdx.x == 0) {
    tile = atomicAdd(next, 1U);
  }
  __syncthreads();
  return tile;
}

/// Returns the sum of the counts of the tiles before `tile`, and waits until those tiles have
/// published them. The word of tile t is counts[t * stride]. Must be called by one thread, which
/// reads the words of kAhead tiles at a time.
template <class Word>
__device__ Word count_before(Word* counts, unsigned tile, unsigned stride) {
  using Count = TileCount<Word>;
  constexpr int kAhead = 16;
  Word before = 0;
  for (auto nearest = static_cast<std::int64_t>(tile) - 1; nearest >= 0; nearest -= kAhead) {
    Word words[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      words[k] = nearest >= k ? Count::look(counts + (nearest - k) * stride) : Count::kUpToHere;
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      while (words[k] == 0) {
        words[k] = Count::look(counts + (nearest - k) * stride);
      }
      before += Count::of(words[k]);
      if ((words[k] & Count::kUpToHere) != 0) {
        return before;
      }
    }
  }
  return before;
}

/// Returns the sum of the counts of the tiles before `tile` to all lanes, and waits until those
/// tiles have published them. Must be called by a whole warp, which reads the words of kAhead * 32
/// tiles at a time; the word of tile t is counts[t].
template <class Word>
__device__ Word warp_count_before(Word* counts, unsigned tile) {
  using Count = TileCount<Word>;
  constexpr int kAhead = 4;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  Word before = 0;
  for (auto nearest = static_cast<std::int64_t>(tile) - 1; nearest >= 0; nearest -= 32 * kAhead) {
    Word words[kAhead];
    auto const look = [&](int k) {
      auto const other = nearest - 32 * k - lane;
      return other >= 0 ? Count::look(counts + other) : Count::kUpToHere;
    };
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      words[k] = look(k);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      while (__any_sync(kAllLanes, words[k] == 0) != 0) {
        words[k] = look(k);
      }
      unsigned const up_to_here = __ballot_sync(kAllLanes, (words[k] & Count::kUpToHere) != 0);
      int const nearest_lane = up_to_here != 0 ? __ffs(static_cast<int>(up_to_here)) - 1 : 31;
      auto own = lane <= nearest_lane ? Count::of(words[k]) : Word{0};
      for (int distance = 16; distance > 0; distance /= 2) {
        own += __shfl_xor_sync(kAllLanes, own, distance);
      }
      before += own;
      if (up_to_here != 0) {
        return before;
      }
    }
  }
  return before;
}

}  // namespace msstream::ops::kernels
