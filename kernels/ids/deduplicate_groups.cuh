// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/look_back.cuh"
#include "ids/deduplicate.hpp"
#include "ids/deduplicate_keys.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

inline constexpr int kGroupThreads = 256;
inline constexpr int kGroupItems = 8;
inline constexpr std::int64_t kGroupTile = kGroupThreads * kGroupItems;

/// Numbers the groups of equal keys in sorted order: writes the unique ids, the index where each
/// group starts, and the group of each sorted position. `counts` [tiles] and `next_tile` must be
/// zero.
///
/// A warp takes 32 * kGroupItems neighbouring keys, each lane every 32nd of them.
template <class Key>
__global__ void __launch_bounds__(kGroupThreads) write_groups_kernel(DeduplicateArgs const args,
                                                                     Key const* keys,
                                                                     std::int64_t count,
                                                                     Key* counts,
                                                                     unsigned* next_tile) {
  constexpr int kWarps = kGroupThreads / 32;
  using Count = TileCount<Key>;
  __shared__ unsigned begun_by_warps[kWarps];
  __shared__ unsigned begun_by_tiles;
  int const thread = static_cast<int>(threadIdx.x);
  int const warp = thread / 32;
  int const lane = thread % 32;
  auto const no_id = static_cast<Key>(args.rows);
  unsigned const tile = take_tile(next_tile);
  auto const begin = tile * kGroupTile + warp * (32 * kGroupItems) + lane;

  Key own[kGroupItems];
  Key previous[kGroupItems];
#pragma unroll
  for (int i = 0; i < kGroupItems; ++i) {
    auto const k = begin + i * 32;
    own[i] = k < count ? keys[k] : no_id;
    previous[i] = k > 0 && k < count ? keys[k - 1] : no_id;
  }
  unsigned begins[kGroupItems];
  unsigned begun = 0;
#pragma unroll
  for (int i = 0; i < kGroupItems; ++i) {
    begins[i] = __ballot_sync(kAllLanes, own[i] != no_id && own[i] != previous[i]);
    begun += __popc(begins[i]);
  }
  if (lane == 0) {
    begun_by_warps[warp] = begun;
  }
  __syncthreads();
  unsigned before = 0;
  unsigned in_tile = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    before += w < warp ? begun_by_warps[w] : 0;
    in_tile += begun_by_warps[w];
  }
  if (warp == 0) {
    if (lane == 0) {
      Count::tell(counts + tile, in_tile, tile == 0 ? Count::kUpToHere : Count::kOwn);
    }
    auto const of_tiles = warp_count_before(counts, tile);
    if (lane == 0) {
      if (tile > 0) {
        Count::tell(counts + tile, of_tiles + in_tile, Count::kUpToHere);
      }
      begun_by_tiles = static_cast<unsigned>(of_tiles);
    }
  }
  __syncthreads();
  before += begun_by_tiles;

#pragma unroll
  for (int i = 0; i < kGroupItems; ++i) {
    auto const k = begin + i * 32;
    bool const is_first = (begins[i] >> lane & 1U) != 0;
    unsigned const unique = before + __popc(begins[i] & ((1U << lane) - 1));
    before += __popc(begins[i]);
    if (k >= count) {
      continue;
    }
    bool const is_valid = own[i] != no_id;
    if (is_first) {
      args.unique_ids[unique] = static_cast<std::int64_t>(own[i]);
      args.starts[unique] = static_cast<std::int32_t>(k);
    }
    auto const uniques = unique + (is_first ? 1 : 0);
    args.ranks[k] = is_valid ? static_cast<std::int32_t>(uniques) - 1 : -1;
    // Detects the end of the valid keys, which are sorted before all other keys.
    bool const is_behind_them = !is_valid && (k == 0 || previous[i] != no_id);
    bool const is_end = is_valid && k + 1 == count;
    if (is_behind_them || is_end) {
      args.starts[uniques] = static_cast<std::int32_t>(k) + (is_end ? 1 : 0);
      *args.unique_count = uniques;
    }
  }
}

}  // namespace msstream::ops::kernels
