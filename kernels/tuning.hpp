// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// From shapes to launch parameters by a few rules. The numbers are for an H200: registers decide
// how many warps an SM holds, and some 40 KB of rows in flight an SM keep its memory busy.

namespace msstream::ops::kernels {

// How a kernel that reads table rows is launched, one type a kind of launch (nvcc 13.0 takes no
// object as a template argument of a kernel):
//
//   kThreads        a block
//   kBlocksAnSm     that registers leave room for
//   kRowsInFlight   requested by a lane before it adds the first
//   kRollsRows      requests one for each that it adds, instead of all once all are added
//   kBagsAGroup     of lanes, which takes each step for all of them at once

/// Bags of several ids. Small blocks, so that the last of them end together, and many warps: where
/// ids come again soon most rows are near, and warps have to fill the wait for the few that are
/// not.
struct LongBags {
  static constexpr int kThreads = 64;
  static constexpr int kBlocksAnSm = 24;
  static constexpr int kRowsInFlight = 4;
  static constexpr bool kRollsRows = true;
  static constexpr int kBagsAGroup = 1;
};

/// The same for sums of halves, which are more a lane.
struct LongBagsOfHalves {
  static constexpr int kThreads = 64;
  static constexpr int kBlocksAnSm = 18;
  static constexpr int kRowsInFlight = 4;
  static constexpr bool kRollsRows = true;
  static constexpr int kBagsAGroup = 1;
};

/// The same where a lane also keeps weights or the places of maxima.
struct LongBagsOfMoreSums {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = 5;
  static constexpr int kRowsInFlight = 8;
  static constexpr bool kRollsRows = false;
  static constexpr int kBagsAGroup = 1;
};

/// Bags of about one id: each step from offset to id to row waits for the memory.
struct ShortBags {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = 8;
  static constexpr int kRowsInFlight = 8;
  static constexpr bool kRollsRows = false;
  static constexpr int kBagsAGroup = 8;
};

/// The same where a lane keeps more than four sums.
struct ShortBagsOfMoreSums {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = 6;
  static constexpr int kRowsInFlight = 8;
  static constexpr bool kRollsRows = false;
  static constexpr int kBagsAGroup = 8;
};

/// Narrow rows: so many groups share a warp that more rows a lane would only cost registers.
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

/// Whether a group of lanes should walk several bags: where all, or if they are jagged most, have
/// about one place. Not where groups are few: then one bag a group fills the GPU once, and more a
/// group would leave it idle.
[[nodiscard]] constexpr bool has_many_short_bags(std::int64_t bags,
                                                 std::int64_t places,
                                                 bool is_jagged,
                                                 int lanes_a_bag) {
  constexpr std::int64_t kManyLanes = std::int64_t{1} << 19;
  return bags * lanes_a_bag >= kManyLanes && places <= (is_jagged ? 2 * bags : bags);
}

}  // namespace msstream::ops::kernels
