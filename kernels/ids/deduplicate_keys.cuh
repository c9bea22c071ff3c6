// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "ids/bag_layout.hpp"
#include "ids/radix_sort.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

/// Returns whether `bag` exists and contains no id that is in the table. All lanes of a warp must
/// call lacks_ids() together, each with its own bag or -1. A lane reads the first ids of its bag;
/// the warp reads longer remainders together.
template <class Id>
__device__ bool lacks_ids(IdBags<Id> const& bags,
                          std::int64_t rows,
                          std::int64_t existing,
                          std::int64_t bag) {
  constexpr int kOwn = 4;
  constexpr int kTogether = 4;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  bool const exists = bag >= 0 && bag < existing;
  auto const places = exists ? bags.places_of(bag) : PlaceRange{0, 0};
  auto const has_id = [&](std::int64_t place, std::int64_t end) {
    return place < end && is_in_range(bags.ids[place], rows);
  };
  bool found = false;
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    found |= has_id(places.begin + k, places.end);
  }
  bool const has_rest = !found && places.end - places.begin > kOwn;
  for (unsigned rests = __ballot_sync(kAllLanes, has_rest); rests != 0; rests &= rests - 1) {
    int const owner = __ffs(static_cast<int>(rests)) - 1;
    auto const end = __shfl_sync(kAllLanes, places.end, owner);
    auto first = __shfl_sync(kAllLanes, places.begin, owner) + kOwn;
    bool any = false;
    for (; first < end && !any; first += 32 * kTogether) {
      bool mine = false;
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        mine |= has_id(first + 32 * k + lane, end);
      }
      any = __any_sync(kAllLanes, mine) != 0;
    }
    found |= lane == owner && any;
  }
  return exists && !found;
}

/// Returns whether every `step`-th bag from `first` on has offsets that ascend within [0,
/// capacity]. If the result is true for each `first` from 0 to step - 1, all bags have valid
/// offsets.
template <class Id>
__device__ bool ascend_in_steps(BagOffsets<Id> const& offsets,
                                std::int64_t first,
                                std::int64_t step) {
  bool all = offsets.at[0] >= 0 && offsets.at[offsets.bags] <= offsets.capacity;
#pragma unroll 4
  for (auto bag = first; bag < offsets.bags; bag += step) {
    all = all & (offsets.at[bag] <= offsets.at[bag + 1]);
  }
  return all;
}

/// Returns whether a position belongs to no bag, or to one with invalid offsets. Not inlined and
/// with arguments by value, so that the rare case costs the caller no registers.
template <class Id>
__device__ __noinline__ bool is_in_no_bag(IdBags<Id> bags, std::int64_t place) {
  return bags.bag_of(place) < 0;
}

/// The keys by which positions are sorted: the id, or `rows` for a position that holds no id of the
/// table, so that such positions come last.
template <class Key, class Id>
struct PlaceKeys {
  IdBags<Id> bags;
  std::int64_t rows;
  std::int64_t places;
  std::int64_t existing;
  PlaceRange existing_places;
  bool has_bad_bags;  ///< true if ids in bags with invalid offsets are left out and such bags may
                      ///< exist

  __device__ PlaceKeys(IdBags<Id> const& all_bags,
                       std::int64_t table_rows,
                       std::int64_t capacity,
                       bool may_have_bad_bags)
      : bags(all_bags),
        rows(table_rows),
        places(capacity),
        existing(all_bags.existing()),
        existing_places(all_bags.existing_places()),
        has_bad_bags(may_have_bad_bags) {}

  /// Returns the id at a position, or `rows` if there is no id.
  __device__ std::int64_t id_at(std::int64_t place) const {
    bool const exists = place >= existing_places.begin && place < existing_places.end &&
                        !(has_bad_bags && is_in_no_bag(bags, place));
    return exists ? static_cast<std::int64_t>(bags.ids[place]) : rows;
  }
  /// Returns the sort key of a position that holds `id`. All lanes of a warp must call of_place()
  /// together.
  __device__ Key of_place(std::int64_t place, std::int64_t id) const {
    if (bags.default_id >= 0) {
      bool const is_default = place >= bags.capacity && place < places;
      bool const lacks =
          lacks_ids(bags, rows, existing, is_default ? place - bags.capacity : std::int64_t{-1});
      if (place >= bags.capacity) {
        id = lacks ? bags.default_id : rows;
      }
    }
    return static_cast<Key>(is_in_range(id, rows) ? id : rows);
  }
};

/// The results of the check for ascending offsets, one per block of look_at_offsets_kernel.
struct OffsetsSeen {
  static constexpr unsigned kMostBlocks = kKeyThreads;

  unsigned* descend = nullptr;  ///< [blocks]: not 0 if offsets descend; null if unchecked
  unsigned blocks = 0;

  /// Returns whether any block found offsets that do not ascend. All threads of a block of
  /// kKeyThreads threads must call any_descend() together.
  [[nodiscard]] __device__ bool any_descend() const {
    return __syncthreads_or(threadIdx.x < blocks && descend[threadIdx.x] != 0 ? 1 : 0) != 0;
  }
};

/// Checks whether all offsets ascend. Also sets the array `zeros` to 0, which saves a launch for
/// clearing it.
template <class Id>
__global__ void __launch_bounds__(kKeyThreads) look_at_offsets_kernel(IdBags<Id> const bags,
                                                                      OffsetsSeen seen,
                                                                      unsigned* zeros,
                                                                      std::int64_t zero_count) {
  for (auto i = grid_thread(); i < zero_count; i += grid_stride()) {
    zeros[i] = 0;
  }
  bool const ascend = ascend_in_steps(bags.bag_offsets(), grid_thread(), grid_stride());
  bool const any_descend = __syncthreads_or(ascend ? 0 : 1) != 0;
  if (threadIdx.x == 0) {
    seen.descend[blockIdx.x] = any_descend ? 1 : 0;
  }
}

/// Computes the sort keys of all positions, and adds the number of occurrences of each of the keys'
/// digits to `bins` [passes, 256], which must be zero before the launch.
template <class Key, class Id>
__global__ void __launch_bounds__(kKeyThreads) make_keys_kernel(IdBags<Id> const bags,
                                                                OffsetsSeen seen,
                                                                std::int64_t rows,
                                                                std::int64_t places,
                                                                Digits digits,
                                                                Key* keys,
                                                                unsigned* bins) {
  __shared__ DigitCounts<static_cast<int>(sizeof(Key))> counts;
  int const thread = static_cast<int>(threadIdx.x);
  counts.clear(digits.passes);
  PlaceKeys<Key, Id> const place_keys(bags, rows, places, seen.any_descend());
  constexpr std::int64_t kTurn = kKeyThreads * kKeysInFlight;
  for (auto turn = blockIdx.x * kTurn; turn < places; turn += gridDim.x * kTurn) {
    std::int64_t ids[kKeysInFlight];
#pragma unroll
    for (int k = 0; k < kKeysInFlight; ++k) {
      ids[k] = place_keys.id_at(turn + k * kKeyThreads + thread);
    }
#pragma unroll
    for (int k = 0; k < kKeysInFlight; ++k) {
      auto const place = turn + k * kKeyThreads + thread;
      auto const key = place_keys.of_place(place, ids[k]);
      if (place < places) {
        keys[place] = key;
        for (int pass = 0; pass < digits.passes; ++pass) {
          counts.count(pass, digits.of(key, pass));
        }
      }
    }
  }
  counts.add_to(bins, digits.passes);
}

}  // namespace msstream::ops::kernels
