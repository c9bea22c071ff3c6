// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "existing_places.hpp"
#include "tiles.cuh"

#include <msstream/ops/kernels/unique.hpp>

#include <cub/block/block_scan.cuh>

#include <bit>
#include <cstdint>

/// From sorted ids to distinct ones. Ids are sorted as unsigned keys of the same order, together
/// with the place where each stood; keys that are left out come last.
namespace msstream::ops::kernels {

struct SortedEntry {
  std::uint64_t key;
  unsigned position;
};

/// How ids become keys.
struct KeyCoding {
  int bits;            ///< of a key
  std::uint64_t flip;  ///< the sign bit of signed ids, else 0
  std::uint64_t last;  ///< the greatest key: that of places that do not exist
  bool last_is_no_id;  ///< and of ids that are left out
  std::int64_t below;  ///< which are those outside [0, below), if last_is_no_id

  explicit KeyCoding(UniqueProblem const& problem)
      : bits(problem.below > 0 ? std::bit_width(static_cast<std::uint64_t>(problem.below))
             : problem.is_wide ? 64
                               : 32),
        flip(problem.below > 0 ? 0 : std::uint64_t{1} << (bits - 1)),
        last(problem.below > 0 ? static_cast<std::uint64_t>(problem.below)
                               : ~std::uint64_t{0} >> (64 - bits)),
        last_is_no_id(problem.below > 0),
        below(problem.below) {}

  /// Whether key and place fit in one word.
  [[nodiscard]] bool is_packed() const { return bits <= 32; }

  __device__ std::uint64_t key_of(std::int64_t id) const {
    if (last_is_no_id) {
      return is_in_range(id, below) ? static_cast<std::uint64_t>(id) : last;
    }
    return (static_cast<std::uint64_t>(id) & last) ^ flip;
  }
  /// Where ids have 32 bits the upper half is not extended.
  __device__ std::int64_t id_of(std::uint64_t key) const {
    return static_cast<std::int64_t>(key ^ flip);
  }
  __device__ bool counts(std::uint64_t key) const { return !last_is_no_id || key != last; }
};

/// Keys of up to 32 bits above their places: one array to sort.
struct PackedEntries {
  std::uint64_t const* entries;

  __device__ SortedEntry at(std::int64_t k) const {
    auto const entry = entries[k];
    return {entry >> 32U, static_cast<unsigned>(entry)};
  }
};

struct PairedEntries {
  std::uint64_t const* keys;
  unsigned const* positions;

  __device__ SortedEntry at(std::int64_t k) const { return {keys[k], positions[k]}; }
};

__device__ inline std::int64_t existing_ids(UniqueArgs const& args) {
  return existing_places(args.count, args.problem.capacity);
}
__device__ inline void store_value(UniqueArgs const& args, std::int64_t u, std::int64_t id) {
  if (args.problem.is_wide) {
    static_cast<std::int64_t*>(args.values)[u] = id;
  } else {
    static_cast<std::int32_t*>(args.values)[u] = static_cast<std::int32_t>(id);
  }
}

/// The groups of equal keys that have begun by some place.
struct Begun {
  unsigned groups;
  unsigned after_start;  ///< one more than where the last of them begins; 0: none

  struct Join {
    __device__ Begun operator()(Begun a, Begun b) const {
      return {a.groups + b.groups, max(a.after_start, b.after_start)};
    }
  };
};

/// A thread's neighbouring entries, and which of them begin a group.
template <class Entries>
struct Neighbours {
  SortedEntry at[Tiles::kItems];
  bool counts[Tiles::kItems];
  bool is_first[Tiles::kItems];
  Begun begun{0, 0};

  __device__ Neighbours(Entries const& entries,
                        KeyCoding const& coding,
                        std::int64_t begin,
                        std::int64_t end) {
    auto previous = begin > 0 && begin < end ? entries.at(begin - 1).key : 0;
#pragma unroll
    for (int i = 0; i < Tiles::kItems; ++i) {
      at[i] = begin + i < end ? entries.at(begin + i) : SortedEntry{};
    }
#pragma unroll
    for (int i = 0; i < Tiles::kItems; ++i) {
      auto const k = begin + i;
      counts[i] = k < end && coding.counts(at[i].key);
      is_first[i] = counts[i] && (k == 0 || at[i].key != previous);
      if (is_first[i]) {
        begun = {begun.groups + 1, static_cast<unsigned>(k) + 1};
      }
      previous = at[i].key;
    }
  }
};

/// Groups are numbered as they come: in ascending order.
struct AscendingGroups {
  __device__ void begin(UniqueArgs const& args, unsigned u, std::int64_t id) const {
    store_value(args, u, id);
  }
  __device__ void end(UniqueArgs const& args, unsigned u, unsigned, unsigned count) const {
    args.counts[u] = count;
  }
  __device__ void member(UniqueArgs const& args, unsigned position, unsigned u, unsigned) const {
    args.inverse[position] = u;
  }
  __device__ void left_out(UniqueArgs const& args, unsigned position) const {
    args.inverse[position] = -1;
  }
};

/// Each place is told where its id stands first; numbers are given later, in that order.
struct OccurringGroups {
  std::int32_t* first_places;  ///< [capacity]: -1 for what is left out
  unsigned* group_counts;      ///< [capacity], at the first places

  __device__ void begin(UniqueArgs const&, unsigned, std::int64_t) const {}
  __device__ void end(UniqueArgs const&, unsigned, unsigned first, unsigned count) const {
    group_counts[first] = count;
  }
  __device__ void member(UniqueArgs const&, unsigned position, unsigned, unsigned first) const {
    first_places[position] = static_cast<std::int32_t>(first);
  }
  __device__ void left_out(UniqueArgs const&, unsigned position) const {
    first_places[position] = -1;
  }
};

/// One block writes the groups of the entries in [tile_begin, tile_end); `before` them some have
/// begun. To be called by all threads of the block, kTileThreads.
template <class Entries, class Groups>
__device__ void write_groups(UniqueArgs const& args,
                             Entries const& entries,
                             KeyCoding const& coding,
                             Groups const& groups,
                             std::int64_t tile_begin,
                             std::int64_t tile_end,
                             std::int64_t existing,
                             Begun before) {
  using Scan = cub::BlockScan<Begun, kTileThreads>;
  __shared__ typename Scan::TempStorage shared;
  for (auto turn = tile_begin; turn < tile_end; turn += Tiles::kTurn) {
    auto const begin = turn + threadIdx.x * Tiles::kItems;
    Neighbours<Entries> const mine(entries, coding, begin, tile_end);
    Begun begun{0, 0};
    Begun of_turn{0, 0};
    Scan(shared).ExclusiveScan(mine.begun, begun, Begun{0, 0}, Begun::Join{}, of_turn);
    begun = Begun::Join{}(before, begun);
    // The place where the group that is open began.
    unsigned first =
        begun.groups > 0 && begin < tile_end ? entries.at(begun.after_start - 1).position : 0;
#pragma unroll
    for (int i = 0; i < Tiles::kItems; ++i) {
      auto const k = static_cast<unsigned>(begin) + i;
      if (k >= tile_end) {
        break;
      }
      auto const& entry = mine.at[i];
      if (mine.is_first[i]) {
        if (k > 0) {
          groups.end(args, begun.groups - 1, first, k - (begun.after_start - 1));
        }
        begun = {begun.groups + 1, k + 1};
        first = entry.position;
        groups.begin(args, begun.groups - 1, coding.id_of(entry.key));
      }
      if (mine.counts[i]) {
        groups.member(args, entry.position, begun.groups - 1, first);
      } else {
        groups.left_out(args, entry.position);
      }
      bool const next_counts = k + 1 < tile_end && i + 1 < Tiles::kItems
                                   ? mine.counts[(i + 1) % Tiles::kItems]
                                   : k + 1 < existing && coding.counts(entries.at(k + 1).key);
      bool const is_last = mine.counts[i] && !next_counts;
      if (is_last) {
        groups.end(args, begun.groups - 1, first, k + 1 - (begun.after_start - 1));
      }
      if (is_last || (k == 0 && !mine.counts[i])) {
        *args.unique_count = begun.groups;
      }
    }
    before = Begun::Join{}(before, of_turn);
    __syncthreads();  // the scan's memory is used again
  }
  if (existing == 0 && tile_begin == 0 && threadIdx.x == 0) {
    *args.unique_count = 0;
  }
}

}  // namespace msstream::ops::kernels
