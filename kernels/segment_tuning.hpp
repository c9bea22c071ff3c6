// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// How segment reductions are cut for a GPU. What decides the order of additions depends on the
/// sizes alone, never on the device.
namespace msstream::ops::kernels {

/// Up to this many places and segments together a warp a segment is fastest: one launch.
inline constexpr std::int64_t kFewSpanItems = 4096;
inline constexpr int kFewSpanWarps = 8;

/// Lanes that share the places of all segments: four times what a large GPU holds at once, so that
/// its last turn is short.
inline constexpr std::int64_t kSpanLanes = std::int64_t{1} << 19;
/// A part has that many places at least, so that finding its first segment does not show, and at
/// most.
inline constexpr std::int64_t kFewestPlacesOfPart = 16;
inline constexpr std::int64_t kMostPlacesOfPart = 256;

inline constexpr int kSpanThreads = 128;
inline constexpr int kSpanBlocks = 6;  ///< an SM
/// Rows that each lane asks for together, and how many such batches it waits for at once.
constexpr int span_batch_rows(int columns_a_lane) {
  return columns_a_lane == 4 ? 4 : 8;
}
inline constexpr int kSpanStages = 3;
/// A part's rows that lanes work on at the same time, as far as the lanes of a warp go.
inline constexpr int kSpanTurns = 4;
constexpr int span_team_lanes(int lanes_of_row) {
  return lanes_of_row * kSpanTurns < 32 ? lanes_of_row * kSpanTurns : 32;
}

/// A long run of border totals is reduced by all warps of its block.
inline constexpr int kBorderWarps = 32;
inline constexpr std::int64_t kLongRun = 64;
/// Segments that a group of lanes looks at to fill the empty ones.
inline constexpr std::int64_t kFillsOfGroup = 16;

/// Neighbouring places of which a group of lanes writes the gradient, and how many it asks for at
/// once.
inline constexpr int kGradientThreads = 256;
inline constexpr int kGradientBlocks = 2;  ///< an SM
inline constexpr std::int64_t kGradientPlaces = 32;
inline constexpr int kGradientInFlight = 4;

/// Places whose equal ids one block brings together before it adds atomically.
inline constexpr int kAtomicThreads = 256;
inline constexpr int kAtomicBlocks = 4;  ///< an SM
inline constexpr int kAtomicIdsOfThread = 8;
/// Up to this many places blocks take fewer, so that all multiprocessors have some.
inline constexpr std::int64_t kMostForSmallAtomicTiles = std::int64_t{1} << 18;
inline constexpr int kFewAtomicIdsOfThread = 1;

/// Whether atomic additions are faster than sorting the ids, by measurements: of narrow rows, of
/// few elements, where the launches of a sort show, and of so few segments that each block brings
/// most of its places together. How often each id is there, the host cannot know.
constexpr bool atomics_are_faster(std::int64_t capacity,
                                  std::int64_t segments,
                                  std::int64_t width) {
  return width <= 32 || segments <= 256 || capacity <= (std::int64_t{1} << 26) / width;
}

}  // namespace msstream::ops::kernels
