// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

/// The shape of a tile of keys that one block sorts in a pass of ids/radix_sort.cuh.
template <int Threads, int Items>
struct SortTile {
  static constexpr int kThreads = Threads;
  static constexpr int kItems = Items;
  static constexpr int kKeys = Threads * Items;
};
using SmallSortTile = SortTile<256, 4>;
using MediumSortTile = SortTile<256, 8>;
using LargeSortTile = SortTile<512, 16>;

/// Calls function(tile) with the shape of the tiles in which a number of keys are sorted. Few keys
/// get small tiles, though none smaller than Least, so that they occupy many multiprocessors. Many
/// keys get large tiles, so that few tiles wait for each other. Keys longer than 32 bits leave no
/// room for large tiles.
template <class Key, class Least, class Function>
auto with_sort_tile(std::int64_t keys, Function const& function) {
  constexpr std::int64_t kMostForSmall = std::int64_t{1} << 17U;
  constexpr std::int64_t kMostForMedium = std::int64_t{1} << 18U;
  if constexpr (std::is_same_v<Least, SmallSortTile>) {
    if (keys <= kMostForSmall) {
      return function(SmallSortTile{});
    }
  }
  if constexpr (sizeof(Key) == sizeof(std::uint32_t)) {
    if (keys > kMostForMedium) {
      return function(LargeSortTile{});
    }
  }
  return function(MediumSortTile{});
}

}  // namespace msstream::ops::kernels
