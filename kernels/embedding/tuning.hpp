// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Rules that derive launch parameters from shapes. The numbers are for an H200: registers decide
// how many warps an SM holds, and about 40 KB of rows in flight per SM keep its memory busy.

namespace msstream::ops::kernels {

// The launch parameters of kernels that read table rows. Each kind of launch has its own type,
// because nvcc 13.0 takes no object as a template argument of a kernel:
//
//   kThreads        threads per block
//   kBlocksAnSm     blocks per SM that the registers leave room for
//   kRowsInFlight   rows that a lane requests before it adds the first
//   kRollsRows      whether a lane requests a row for each that it adds, not all at once
//   kBagsAGroup     bags per group of lanes, which takes each step for all of them at once

/// The launch of lookups in bags of several ids. Blocks are small, so that the last of them end
/// together. There are many warps: if ids recur soon, most rows are in a near cache, and warps have
/// to hide the latency of the few others.
struct LongBags {
  static constexpr int kThreads = 64;
  static constexpr int kBlocksAnSm = 24;
  static constexpr int kRowsInFlight = 4;
  static constexpr bool kRollsRows = true;
  static constexpr int kBagsAGroup = 1;
};

/// The launch of lookups in bags of several ids for sums of half-precision rows, of which a lane
/// has more columns.
struct LongBagsOfHalves {
  static constexpr int kThreads = 64;
  static constexpr int kBlocksAnSm = 18;
  static constexpr int kRowsInFlight = 4;
  static constexpr bool kRollsRows = true;
  static constexpr int kBagsAGroup = 1;
};

/// The launch of lookups in bags of several ids for lanes that also keep weights or the positions
/// of maxima.
struct LongBagsOfMoreSums {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = 5;
  static constexpr int kRowsInFlight = 8;
  static constexpr bool kRollsRows = false;
  static constexpr int kBagsAGroup = 1;
};

/// The launch of lookups in bags of about one id, where each step from offset to id to row waits
/// for memory.
struct ShortBags {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = 8;
  static constexpr int kRowsInFlight = 8;
  static constexpr bool kRollsRows = false;
  static constexpr int kBagsAGroup = 8;
};

/// The launch of lookups in bags of about one id for lanes that keep more than four sums.
struct ShortBagsOfMoreSums {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = 6;
  static constexpr int kRowsInFlight = 8;
  static constexpr bool kRollsRows = false;
  static constexpr int kBagsAGroup = 8;
};

/// The launch of lookups in bags of several ids in tables of narrow rows. So many groups share a
/// warp that more rows per lane would only cost registers.
struct LongBagsOfNarrowRows {
  static constexpr int kThreads = 256;
  static constexpr int kBlocksAnSm = 4;
  static constexpr int kRowsInFlight = 4;
  static constexpr bool kRollsRows = false;
  static constexpr int kBagsAGroup = 1;
};

struct ShortBagsOfNarrowRows {
  static constexpr int kThreads = 256;
  static constexpr int kBlocksAnSm = 4;
  static constexpr int kRowsInFlight = 4;
  static constexpr bool kRollsRows = false;
  static constexpr int kBagsAGroup = 4;
};

/// Returns whether each group of lanes should process several bags: true if all bags, or most bags
/// if they are jagged, have about one position. If groups are few, the result is false: one bag per
/// group then fills the GPU once, and more bags per group would leave it idle.
[[nodiscard]] constexpr bool has_many_short_bags(std::int64_t bags,
                                                 std::int64_t places,
                                                 bool is_jagged,
                                                 int lanes_a_bag) {
  constexpr std::int64_t kManyLanes = std::int64_t{1} << 19;
  return bags * lanes_a_bag >= kManyLanes && places <= (is_jagged ? 2 * bags : bags);
}

}  // namespace msstream::ops::kernels
