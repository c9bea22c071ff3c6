// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ids/unique.hpp"
#include "ids/unique_keys.cuh"
#include "ids/unique_tiles.cuh"

#include <cstdint>

/// The second step of unique(): finds the distinct ids in sorted ones. Keys of ids that are left
/// out come last.
namespace msstream::ops::kernels {

/// Sorted keys of ids, and the original position of each key.
template <class Key>
struct SortedIds {
  Key const* keys;
  unsigned const* positions;

  [[nodiscard]] __device__ SortedIds reader() const { return *this; }
  [[nodiscard]] __device__ std::uint64_t key(unsigned k) const { return keys[k]; }
};

/// Keys of ids sorted by the bytes in which they differ, and the original position of each key. The
/// number of such bytes, which only the device knows, decides how keys are stored, and in which of
/// two arrays.
struct SortedVaryingIds {
  std::uint64_t const* keys[2];
  unsigned const* positions[2];
  MetBits const* met;

  struct Reader {
    VaryingBytes bytes;
    std::uint64_t const* keys;
    unsigned const* positions;

    [[nodiscard]] __device__ std::uint64_t key(unsigned k) const {
      return bytes.fit_in_word() ? bytes.restored(reinterpret_cast<std::uint32_t const*>(keys)[k])
                                 : keys[k];
    }
  };
  [[nodiscard]] __device__ Reader reader() const {
    VaryingBytes const bytes(*met);
    bool const is_second = bytes.count() % 2 != 0;
    return {bytes, is_second ? keys[1] : keys[0], is_second ? positions[1] : positions[0]};
  }
};

__device__ inline void store_value(UniqueArgs const& args, std::int64_t u, std::int64_t id) {
  if (args.problem.is_wide) {
    __stcs(static_cast<std::int64_t*>(args.values) + u, id);
  } else {
    __stcs(static_cast<std::int32_t*>(args.values) + u, static_cast<std::int32_t>(id));
  }
}

/// A running count of the groups of equal keys that begin up to some position, and the start of the
/// last of them.
struct Begun {
  unsigned groups;
  unsigned after_start;  ///< index of the last group's first key, plus 1; 0 if there is none

  struct Join {
    __device__ Begun operator()(Begun a, Begun b) const {
      return {a.groups + b.groups, max(a.after_start, b.after_start)};
    }
  };

  /// Returns the count of groups after 32 more positions from `k` on. A bit of `heads` is set if
  /// its position begins a group.
  [[nodiscard]] __device__ Begun with(unsigned heads, unsigned k) const {
    return {groups + __popc(heads),
            heads != 0 ? k + 32 - __clz(static_cast<int>(heads)) : after_start};
  }
};

/// The neighbouring sorted keys of a warp, of which each lane has every 32nd, and a mask of the
/// keys that begin a group. All lanes must construct the object together.
struct WarpKeys {
  static constexpr int kPlaces = 32 * Tiles::kItems;

  unsigned begin;  ///< index of the warp's first key
  std::uint64_t own[Tiles::kItems];
  unsigned counts[Tiles::kItems];  ///< a bit per lane: whether its key exists and is not left out
  unsigned heads[Tiles::kItems];   ///< a bit per lane: whether its key begins a group
  bool follows_key;  ///< whether the key before the first one exists and is not left out; true if
                     ///< there is no such key

  template <class Reader>
  __device__ WarpKeys(Reader const& sorted, KeyCoding const& coding, unsigned turn, unsigned end)
      : begin(turn + threadIdx.x / 32 * kPlaces) {
    unsigned const lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < Tiles::kItems; ++i) {
      auto const k = begin + i * 32 + lane;
      own[i] = k < end ? sorted.key(k) : 0;
    }
    auto last = begin > 0 && begin < end ? sorted.key(begin - 1) : 0;
    follows_key = begin == 0 || coding.counts(last);
#pragma unroll
    for (int i = 0; i < Tiles::kItems; ++i) {
      auto const k = begin + i * 32 + lane;
      auto previous = __shfl_up_sync(kAllLanes, own[i], 1);
      previous = lane == 0 ? last : previous;
      last = __shfl_sync(kAllLanes, own[i], 31);
      bool const counts_here = k < end && coding.counts(own[i]);
      counts[i] = __ballot_sync(kAllLanes, counts_here);
      heads[i] = __ballot_sync(kAllLanes, counts_here && (k == 0 || own[i] != previous));
    }
  }

  [[nodiscard]] __device__ Begun begun() const {
    Begun all{0, 0};
#pragma unroll
    for (int i = 0; i < Tiles::kItems; ++i) {
      all = all.with(heads[i], begin + i * 32);
    }
    return all;
  }
};

/// Numbers the groups of equal ids in ascending order of the ids.
template <class Number>
struct AscendingGroups {
  Number* numbers;  ///< [capacity]: group of each position, -1 for an id that is left out

  __device__ void begin(UniqueArgs const& args, unsigned u, std::int64_t id) const {
    store_value(args, u, id);
  }
  __device__ void end(UniqueArgs const& args, unsigned u, unsigned, unsigned count) const {
    __stcs(args.counts + u, std::int64_t{count});
  }
  __device__ void member(unsigned position, unsigned u, unsigned) const {
    numbers[position] = static_cast<Number>(u);
  }
  __device__ void left_out(unsigned position) const { numbers[position] = -1; }
};

/// Stores for each position the position where its id occurs first. Numbers are assigned by a later
/// kernel, in the order of first occurrence.
struct OccurringGroups {
  std::int32_t* first_places;  ///< [capacity]: -1 for an id that is left out
  unsigned* group_counts;      ///< [capacity]: at first positions, the size of the group

  __device__ void begin(UniqueArgs const&, unsigned, std::int64_t) const {}
  __device__ void end(UniqueArgs const&, unsigned, unsigned first, unsigned count) const {
    group_counts[first] = count;
  }
  __device__ void member(unsigned position, unsigned, unsigned first) const {
    first_places[position] = static_cast<std::int32_t>(first);
  }
  __device__ void left_out(unsigned position) const { first_places[position] = -1; }
};

/// Writes the groups of equal keys among the keys of one warp. All lanes must call
/// write_warp_groups() together. `before` counts the groups that begin before the warp's keys. The
/// inverse is written at random positions; all other accesses are streamed, so that the L2 cache
/// can gather whole sectors of the inverse.
template <class Reader, class Groups>
__device__ void write_warp_groups(UniqueArgs const& args,
                                  Reader const& sorted,
                                  KeyCoding const& coding,
                                  Groups const& groups,
                                  WarpKeys const& keys,
                                  unsigned end,
                                  unsigned existing,
                                  Begun before) {
  unsigned const lane = threadIdx.x % 32;
  unsigned positions[Tiles::kItems];
#pragma unroll
  for (int i = 0; i < Tiles::kItems; ++i) {
    auto const k = keys.begin + i * 32 + lane;
    positions[i] = k < end ? __ldcs(sorted.positions + k) : 0;
  }
  unsigned const lower_lanes = (1U << lane) - 1;
  bool follows_key = keys.follows_key;
#pragma unroll
  for (int i = 0; i < Tiles::kItems; ++i) {
    auto const k = keys.begin + i * 32 + lane;
    bool const counts = (keys.counts[i] >> lane & 1U) != 0;
    bool const is_head = (keys.heads[i] >> lane & 1U) != 0;
    bool const previous_counts = lane > 0 ? (keys.counts[i] >> (lane - 1) & 1U) != 0 : follows_key;
    auto const first_of = [&](Begun const& open) { return sorted.positions[open.after_start - 1]; };
    // `open` counts the groups up to the previous lane, `now` the groups up to the calling lane.
    auto const open = before.with(keys.heads[i] & lower_lanes, keys.begin + i * 32);
    auto const now = is_head ? Begun{open.groups + 1, k + 1} : open;
    if (k < end) {
      bool const is_behind_all = !counts && previous_counts;
      if ((is_head || is_behind_all) && open.groups > 0) {
        groups.end(args, open.groups - 1, first_of(open), k - (open.after_start - 1));
      }
      if (is_head) {
        groups.begin(args, open.groups, coding.id_of(keys.own[i]));
      }
      if (counts) {
        groups.member(positions[i], now.groups - 1, first_of(now));
      } else {
        groups.left_out(positions[i]);
      }
      bool const is_end = counts && k + 1 == existing;
      if (is_end) {
        groups.end(args, now.groups - 1, first_of(now), k + 1 - (now.after_start - 1));
      }
      if (is_behind_all || is_end) {
        *args.unique_count = now.groups;
      }
    }
    before = before.with(keys.heads[i], keys.begin + i * 32);
    follows_key = (keys.counts[i] >> 31U) != 0;
  }
}

/// Writes the groups of the sorted keys in [tile_begin, tile_end) with one block. `before` counts
/// the groups that begin before these keys. All kTileThreads threads of the block must call
/// write_groups().
template <class Reader, class Groups>
__device__ void write_groups(UniqueArgs const& args,
                             Reader const& sorted,
                             KeyCoding const& coding,
                             Groups const& groups,
                             unsigned tile_begin,
                             unsigned tile_end,
                             unsigned existing,
                             Begun before) {
  constexpr int kWarps = kTileThreads / 32;
  __shared__ Begun begun_by_warps[kWarps];
  int const warp = static_cast<int>(threadIdx.x / 32);
  for (auto turn = tile_begin; turn < tile_end; turn += Tiles::kTurn) {
    WarpKeys const keys(sorted, coding, turn, tile_end);
    if (threadIdx.x % 32 == 0) {
      begun_by_warps[warp] = keys.begun();
    }
    __syncthreads();
    auto before_warp = before;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      before_warp = w < warp ? Begun::Join{}(before_warp, begun_by_warps[w]) : before_warp;
      before = Begun::Join{}(before, begun_by_warps[w]);
    }
    write_warp_groups(args, sorted, coding, groups, keys, tile_end, existing, before_warp);
    __syncthreads();  // the next round overwrites the warps' counts
  }
  if (existing == 0 && tile_begin == 0 && threadIdx.x == 0) {
    *args.unique_count = 0;
  }
}

}  // namespace msstream::ops::kernels
