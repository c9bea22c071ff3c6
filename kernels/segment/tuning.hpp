// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Parameters of the division of segment reductions among the threads of a GPU. Everything that
/// decides the order of additions depends only on the sizes, never on the device.
namespace msstream::ops::kernels {

/// The number of positions and segments together up to which one warp per segment, in a single
/// launch, is fastest, unless segments are long.
inline constexpr std::int64_t kFewSpanItems = 4096;
inline constexpr int kFewSpanWarps = 8;
/// The number of positions up to which one launch is fastest even if segments are long.
inline constexpr std::int64_t kFewLongPlaces = 512;

/// Rows of at most this many columns are narrow: a lane or up to four lanes hold one.
inline constexpr std::int64_t kNarrowWidth = 4;
/// The most positions and segments of narrow rows up to which one launch, with a team of lanes per
/// segment, is fastest.
inline constexpr std::int64_t kNarrowPlaces = std::int64_t{1} << 15;
inline constexpr std::int64_t kNarrowSegments = std::int64_t{1} << 16;
inline constexpr int kNarrowWarps = 16;
/// The number of rows that each lane of a run of rows requests together.
inline constexpr int kRunRows = 8;
/// The most times that a team of lanes requests rows of a segment of narrow rows. A warp reduces
/// segments with more rows, and the whole block those with more than kMostNarrowRowsOfWarp.
inline constexpr int kNarrowRounds = 4;
inline constexpr std::int64_t kMostNarrowRowsOfWarp = 2048;
/// Returns how many lanes share a segment of narrow rows: so many that the rows of a segment of
/// average length are requested together, as far as the lanes of a warp suffice. A power of two.
constexpr int narrow_team_lanes(std::int64_t capacity, std::int64_t segments, int lanes_of_row) {
  int lanes = lanes_of_row;
  while (lanes < 32 && (lanes / lanes_of_row) * kRunRows * segments < capacity) {
    lanes *= 2;
  }
  return lanes;
}

/// The number of lanes that share the positions of all segments: about as many as a large GPU holds
/// at once, because each group of lanes first waits for the offsets and the rows of its part.
inline constexpr std::int64_t kSpanLanes = std::int64_t{3} << 15;
/// The least number of positions in a part of a segment reduction. It is large enough to hide the
/// search for the part's first segment, and for narrow rows as large as the number of rows that a
/// team of lanes requests together.
inline constexpr std::int64_t kFewestPlacesOfPart = 16;
inline constexpr std::int64_t kFewestNarrowPlacesOfPart = 32;
constexpr std::int64_t fewest_places_of_part(std::int64_t width) {
  return width <= kNarrowWidth ? kFewestNarrowPlacesOfPart : kFewestPlacesOfPart;
}
/// The greatest number of positions in a part. With more positions, groups of lanes have several
/// parts each, so that none keeps the others waiting long. Parts of fewer columns may be longer.
constexpr std::int64_t most_places_of_part(std::int64_t width) {
  constexpr std::int64_t kElements = std::int64_t{1} << 15;
  constexpr std::int64_t kLeast = 256;
  constexpr std::int64_t kMost = 1024;
  auto const places = kElements / width;
  return places < kLeast ? kLeast : places > kMost ? kMost : places;
}
/// Returns how many columns each lane reduces: four neighbouring ones where rows can be read in
/// vectors, otherwise one, or kColumnsApart that are the lanes of a warp apart.
inline constexpr int kColumnsApart = 2;
constexpr int span_columns(std::int64_t width, bool are_vectors) {
  return are_vectors ? 4 : width > 32 ? kColumnsApart : 1;
}

inline constexpr int kSpanThreads = 128;
inline constexpr int kSpanBlocks = 6;  ///< blocks per SM
/// Returns how many rows each lane of a segment reduction requests together. A lane has kSpanStages
/// batches of that many rows in flight.
constexpr int span_batch_rows(int columns_a_lane) {
  return columns_a_lane == 4 ? 4 : 8;
}
inline constexpr int kSpanStages = 3;
/// The number of rows that a team of lanes adds at the same time, as far as the lanes of a warp
/// suffice.
inline constexpr int kSpanTurns = 4;
constexpr int span_team_lanes(int lanes_of_row) {
  return lanes_of_row * kSpanTurns < 32 ? lanes_of_row * kSpanTurns : 32;
}

/// The number of warps in a block that combines partial results of segments. All warps of the block
/// share a run of more than kLongRun results.
inline constexpr int kBorderWarps = 32;
inline constexpr std::int64_t kLongRun = 64;
/// The number of columns whose partial results one block combines. Blocks along the grid's y
/// dimension share wider rows, so that several multiprocessors combine a long run. Rows of more
/// than kMostSharedWidth columns have up to kWideBorderColumns in a block, as many as its lanes
/// hold, so that the grid can hold more of them.
inline constexpr std::int64_t kBorderColumns = 32;
inline constexpr std::int64_t kWideBorderColumns = 128;
inline constexpr std::int64_t kMostSharedWidth = std::int64_t{1} << 20;
/// The most runs of more than kLongRun parts that can end in the parts of one block of kBorderWarps
/// warps: two that follow each other end at least kLongRun parts apart.
inline constexpr int kMostLongRuns = kBorderWarps * 32 / static_cast<int>(kLongRun) + 1;
/// The number of segments that each warp checks for being empty, to write their fill value, up to
/// so many blocks that more would not run at the same time.
inline constexpr std::int64_t kFillsOfWarp = 32;
inline constexpr std::int64_t kMostFillBlocks = 256;

/// The launch of a segment gradient: each group of lanes requests kGradientInFlight rows at once.
inline constexpr int kGradientThreads = 256;
inline constexpr int kGradientBlocks = 2;  ///< blocks per SM
inline constexpr int kGradientInFlight = 4;
inline constexpr std::int64_t kMostGradientPlaces = 32;
/// The number of lanes among which few positions are divided: about as many as a large GPU holds at
/// once.
inline constexpr std::int64_t kGradientLanes = std::int64_t{1} << 17;
/// Returns how many neighbouring rows each group of lanes of a segment gradient writes: a multiple
/// of kGradientInFlight, at most kMostGradientPlaces, and fewer if there are few positions, so that
/// all multiprocessors have some.
constexpr std::int64_t gradient_places(std::int64_t capacity, int lanes_of_row) {
  auto const share = capacity * lanes_of_row / (kGradientLanes * kGradientInFlight) + 1;
  auto const places = share * kGradientInFlight;
  return places < kMostGradientPlaces ? places : kMostGradientPlaces;
}

/// The launch of segment sums with atomic additions: a block groups equal ids among
/// kAtomicIdsOfThread positions per thread before it adds atomically.
inline constexpr int kAtomicThreads = 256;
inline constexpr int kAtomicBlocks = 4;  ///< blocks per SM
inline constexpr int kAtomicIdsOfThread = 8;
/// The number of positions up to which a block of atomic additions takes fewer of them, so that all
/// multiprocessors have some.
inline constexpr std::int64_t kMostForSmallAtomicTiles = std::int64_t{1} << 18;
inline constexpr int kFewAtomicIdsOfThread = 1;

/// Returns whether atomic additions of segment sums are faster than sorting the ids, by
/// measurements: for narrow rows, for few elements, for which the launches of a sort matter, and
/// for so few segments that each block groups most of its positions. The host cannot know how often
/// each id occurs.
constexpr bool atomics_are_faster(std::int64_t capacity,
                                  std::int64_t segments,
                                  std::int64_t width) {
  return width <= 32 || segments <= 256 || capacity <= (std::int64_t{1} << 26) / width;
}

}  // namespace msstream::ops::kernels
