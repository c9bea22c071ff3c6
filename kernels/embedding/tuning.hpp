// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

// Rules that derive launch parameters from shapes. What decides is the machine's memory: a GPU of
// 132 multiprocessors (H100, H200) keeps it busy with about 5 MB of rows requested and not yet
// received. Registers hold these rows, so a multiprocessor has either many warps with few rows per
// lane, which suits many bags and ids that recur, or few warps with many rows per lane, for
// launches that have few bags.

namespace msstream::ops::kernels {

// The launch parameters of kernels that read table rows. Each kind of launch has its own type,
// because nvcc 13.0 takes no object as a template argument of a kernel:
//
//   kThreads        most threads per block
//   kBlocksAnSm     blocks of so many threads per SM that the registers leave room for
//   kRowsInFlight   rows that a lane requests before it adds the first
//   kIdsALane       ids that a lane reads for its group at a time
//   kRollsRows      whether a lane requests a row for each that it adds, not all at once
//   kRunsBags       whether a group of lanes requests the rows of its next bag while it adds those
//                   of a bag; for bags of equal hotness, at most kRowsInFlight
//   kEqualBags      whether all bags of the launch must have equally many ids
//   kBagsAGroup     bags per group of lanes, which takes each step for all of them at once

/// Threads of a block of sums in bags of several ids. Blocks are small, so that the last of them
/// end together.
inline constexpr int kThreadsOfSums = 64;

/// The launch of sums in bags of several ids.
template <int RowsInFlight, int IdsALane, int WarpsAnSm, bool EqualBags>
struct RolledBags {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = WarpsAnSm * 32 / kThreads;
  static constexpr int kRowsInFlight = RowsInFlight;
  static constexpr int kIdsALane = IdsALane;
  static constexpr bool kRollsRows = true;
  static constexpr bool kEqualBags = EqualBags;
  static constexpr bool kRunsBags = false;
  static constexpr int kBagsAGroup = 1;
};
/// Many bags: if ids recur soon, most rows are in a near cache, and warps have to hide the latency
/// of the few others.
template <bool EqualBags>
using ManyBags = RolledBags<4, 1, 48, EqualBags>;
/// Many bags of half-precision rows, of which a lane has more columns.
template <bool EqualBags>
using ManyBagsOfHalves = RolledBags<4, 1, 36, EqualBags>;
/// Fewer bags than fill a GPU with ManyBags.
template <bool EqualBags>
using FewBags = RolledBags<8, 2, 28, EqualBags>;
template <bool EqualBags>
using FewestBags = RolledBags<16, 4, 16, EqualBags>;
/// Long bags of equally many ids, of which a multiprocessor has only a few warps.
using FewestLongBags = RolledBags<32, 8, 8, true>;

/// The launch of sums in runs of bags of a few ids each.
template <int RowsInFlight, int IdsALane, int WarpsAnSm>
struct RunsOfBags {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = WarpsAnSm * 32 / kThreads;
  static constexpr int kRowsInFlight = RowsInFlight;
  static constexpr int kIdsALane = IdsALane;
  static constexpr bool kRollsRows = false;
  static constexpr bool kRunsBags = true;
  static constexpr int kBagsAGroup = 1;
};
using RunsOfFour = RunsOfBags<4, 2, 40>;
using RunsOfEight = RunsOfBags<8, 2, 28>;

/// The launch of lookups in bags of several ids for lanes that also keep weights or the positions
/// of maxima.
struct LongBagsOfMoreSums {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = 5;
  static constexpr int kRowsInFlight = 8;
  static constexpr int kIdsALane = 2;
  static constexpr bool kRollsRows = false;
  static constexpr bool kRunsBags = false;
  static constexpr int kBagsAGroup = 1;
};

/// The launch of lookups in bags of about one id, where each step from offset to id to row waits
/// for memory.
struct ShortBags {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = 8;
  static constexpr int kRowsInFlight = 8;
  static constexpr int kIdsALane = 1;
  static constexpr bool kRollsRows = false;
  static constexpr bool kRunsBags = false;
  static constexpr int kBagsAGroup = 8;
};

/// The launch of lookups in bags of about one id for lanes that keep more than four sums.
struct ShortBagsOfMoreSums : ShortBags {
  static constexpr int kBlocksAnSm = 6;
};

/// The launch of lookups in bags of several ids in tables of narrow rows, or of rows that cannot be
/// read 8 bytes at a time. Lanes read all ids of their bags.
struct LongBagsOfNarrowRows {
  static constexpr int kThreads = 256;
  static constexpr int kBlocksAnSm = 4;
  static constexpr int kRowsInFlight = 4;
  static constexpr int kIdsALane = 4;
  static constexpr bool kRollsRows = false;
  static constexpr bool kRunsBags = false;
  static constexpr int kBagsAGroup = 1;
};

struct ShortBagsOfNarrowRows : LongBagsOfNarrowRows {
  static constexpr int kBagsAGroup = 4;
};

/// How groups of lanes share bags. A row is cut into slices of neighbouring columns, a power of two
/// of lanes each, so that a row of 96 floats, 24 loads of 16 bytes, occupies three groups of 8
/// lanes rather than 32 lanes of which 8 idle. Each slice of a bag is pooled by a group of its own.
struct BagShare {
  int log2_lanes = 0;  ///< lanes of a group
  int slices = 1;      ///< groups per bag; a wider row takes several turns

  [[nodiscard]] constexpr int lanes() const { return slices << log2_lanes; }
  /// Returns the threads of a block: at most about `most`, whole warps and whole bags. Small blocks
  /// let the last of them end together.
  [[nodiscard]] constexpr int threads(int most) const {
    int const unit = slices == 3 ? 96 : std::max(lanes(), 32);
    return std::max(most / unit, 1) * unit;
  }
};

/// Returns how lanes share a row of `loads` loads: with the fewest idle lanes, and then with the
/// fewest slices. Groups have at least four lanes, as far as there are loads.
[[nodiscard]] constexpr BagShare share_of(std::int64_t loads) {
  constexpr int kMostSlices = 4;
  BagShare best{5, kMostSlices};
  std::int64_t fewest = loads > best.lanes() ? 0 : best.lanes() + 1;
  for (int log2 = 5; log2 >= 2; --log2) {
    auto const slices = (loads + (1 << log2) - 1) >> log2;
    if (slices <= kMostSlices && slices << log2 < fewest) {
      best = {log2, static_cast<int>(slices)};
      fewest = best.lanes();
    }
  }
  while (best.slices == 1 && best.log2_lanes > 0 && loads <= 1 << (best.log2_lanes - 1)) {
    --best.log2_lanes;
  }
  return best;
}

/// The bytes of rows in flight that keep a GPU's memory busy.
inline constexpr std::int64_t kBytesInFlight = std::int64_t{5} << 20;

/// Returns the rows that each bag must have in flight for all of them to keep the memory busy.
[[nodiscard]] constexpr std::int64_t rows_in_flight(std::int64_t bags, std::int64_t row_bytes) {
  auto const bytes = std::max<std::int64_t>(bags * row_bytes, 1);
  return (kBytesInFlight + bytes - 1) / bytes;
}

/// Returns the bags of a run: as many as leave the GPU enough groups to be busy to the end, and at
/// most as many as the lanes of a group can read ids for.
[[nodiscard]] constexpr int bags_of_run(std::int64_t bags, int lanes_a_bag, std::int64_t most) {
  constexpr std::int64_t kManyLanes = std::int64_t{1} << 19;
  auto const spare = bags * lanes_a_bag / kManyLanes;
  return static_cast<int>(std::clamp<std::int64_t>(std::min(spare, most), 1, 8));
}

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
