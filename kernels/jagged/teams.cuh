// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "elementwise/reduce_math.hpp"
#include "ids/bag_offsets.cuh"
#include "ids/bag_offsets.hpp"
#include "ids/bag_report.cuh"

#include <algorithm>
#include <cstdint>
#include <limits>

/// Teams of threads that share a segment of rows: a few lanes of a warp share a short segment, a
/// whole block shares a long one. Each thread has one column at a time, and takes rows at a stride
/// of the team's rows. Several blocks share a very long segment (jagged/parts.cuh).
namespace msstream::ops::kernels {

inline constexpr int kTeamThreads = 512;
/// The least number of blocks that a multiprocessor holds at once, which limits the registers per
/// thread. With 3 blocks, the kernels of jagged softmax spill registers.
inline constexpr int kTeamBlocksAtOnce = 2;
/// The number of rows per lane in a segment of mean length, chosen so that a thread has several
/// loads in flight.
inline constexpr std::int64_t kRowsALane = 4;
/// The most rows that a lane holds in registers.
inline constexpr int kHeldRowsALane = 2 * kRowsALane;
/// The most rows per lane of a segment that a few lanes process. A longer segment is processed by
/// the whole block.
inline constexpr std::int64_t kMostRowsALane = 64;
/// About twice the number of blocks that a large GPU holds at once. If there are fewer segments,
/// each segment has a block of its own.
inline constexpr std::int64_t kTeamBlocks = 528;

/// The division of a block's threads into teams that share segments. Depends only on the sizes.
struct TeamShape {
  int log2_columns = 0;  ///< log2 of the lanes that take neighbouring columns
  int log2_rows = 0;     ///< log2 of the lanes that take the rows of a short segment alternately
  std::int64_t segments_a_block;
  std::int64_t most_rows_of_lanes;  ///< of a segment that a few lanes process
  /// The most rows of a segment that one block processes.
  std::int64_t most_rows_of_block = std::numeric_limits<std::int64_t>::max();
  std::int64_t first_block = 0;  ///< the block of the grid that has the first segments

  TeamShape(std::int64_t segments, std::int64_t capacity, std::int64_t width) {
    while (log2_columns < 5 && (std::int64_t{1} << log2_columns) < width) {
      ++log2_columns;
    }
    auto const rows_a_segment = ceil_div(capacity, std::max<std::int64_t>(segments, 1));
    while (log2_columns + log2_rows < 5 && (kRowsALane << log2_rows) < rows_a_segment) {
      ++log2_rows;
    }
    segments_a_block = std::clamp<std::int64_t>(
        segments / kTeamBlocks, 1, kTeamThreads >> (log2_columns + log2_rows));
    // A block with one segment has no other work for the lanes that would be idle.
    most_rows_of_lanes = (segments_a_block == 1 ? kHeldRowsALane : kMostRowsALane) * rows();
  }

  __host__ __device__ int columns() const { return 1 << log2_columns; }
  __host__ __device__ int rows() const { return 1 << log2_rows; }
};

/// A team of lanes of one warp that share a segment. All lanes of the warp must call reduce()
/// together.
struct LaneTeam {
  static constexpr bool kIsBlock = false;
  int column;
  int columns;
  int row;
  int rows;

  explicit __device__ LaneTeam(TeamShape const& shape)
      : column(static_cast<int>(threadIdx.x) & (shape.columns() - 1)),
        columns(shape.columns()),
        row((static_cast<int>(threadIdx.x) >> shape.log2_columns) & (shape.rows() - 1)),
        rows(shape.rows()) {}

  /// Returns the reduction of the values of a team over its rows, one result per column. All
  /// threads of the team get the result.
  template <class Reducer>
  __device__ float reduce(float value) const {
    for (int distance = columns * rows / 2; distance >= columns; distance /= 2) {
      value = Reducer::combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
    }
    return value;
  }
};

/// A team of all kTeamThreads threads of a block that share a segment.
struct BlockTeam {
  static constexpr bool kIsBlock = true;
  int column;
  int columns;
  int row;
  int rows;

  explicit __device__ BlockTeam(TeamShape const& shape)
      : column(static_cast<int>(threadIdx.x) & (shape.columns() - 1)),
        columns(shape.columns()),
        row(static_cast<int>(threadIdx.x) >> shape.log2_columns),
        rows(kTeamThreads >> shape.log2_columns) {}

  template <class Reducer, class Value>
  __device__ Value reduce(Value value) const {
    constexpr int kWarps = kTeamThreads / 32;
    __shared__ Value partials[kWarps][32];
    int const warp = static_cast<int>(threadIdx.x) / 32;
    int const lane = static_cast<int>(threadIdx.x) % 32;
    for (int distance = 16; distance >= columns; distance /= 2) {
      value = Reducer::combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
    }
    __syncthreads();  // all threads have read the results of an earlier call
    partials[warp][lane] = value;
    __syncthreads();
    value = partials[0][lane];
#pragma unroll
    for (int other = 1; other < kWarps; ++other) {
      value = Reducer::combine(value, partials[other][lane]);
    }
    return value;
  }
};

/// Sets the rows [begin, end) to zero. All threads of the team must call clear_rows().
template <class Team>
__device__ void clear_rows(
    Team const& team, std::int64_t begin, std::int64_t end, std::int64_t width, float* rows) {
  for (auto row = begin + team.row; row < end; row += team.rows) {
    for (std::int64_t column = team.column; column < width; column += team.columns) {
      rows[row * width + column] = 0.0F;
    }
  }
}

/// Returns whether a segment has invalid offsets. If so, sets its rows to zero and reports it. The
/// function is not inlined and takes its arguments by value, so that this rare case takes no
/// registers from its callers.
static __device__ __noinline__ bool is_bad_and_cleared(BagOffsets<std::int64_t> offsets,
                                                       std::int64_t segment,
                                                       IdReport report,
                                                       LaneTeam lanes,
                                                       std::int64_t width,
                                                       float* rows) {
  if (!offsets.is_bad(segment)) {
    return false;
  }
  clear_rows(lanes, offsets.ascending(segment), offsets.ascending(segment + 1), width, rows);
  if (lanes.column == 0 && lanes.row == 0) {
    report_bad(report, offsets, segment);
  }
  return true;
}

/// Calls work(team, rows of the segment) for the segments of the block: first for each short
/// segment with a few lanes, then for each long segment with the whole block. Leaves out segments
/// of more than shape.most_rows_of_block rows. All kTeamThreads threads of a block from
/// shape.first_block on must call for_each_segment(). Lanes without a segment call `work` too, with
/// no rows. Rows of `rows` [capacity, width] that lie between the segments belong to segments with
/// invalid offsets and are set to zero.
template <class Work>
__device__ void for_each_segment(BagOffsets<std::int64_t> const& offsets,
                                 IdReport const& report,
                                 std::int64_t width,
                                 float* rows,
                                 TeamShape const& shape,
                                 Work const& work) {
  __shared__ PlaceRange long_ones[kTeamThreads];
  __shared__ int long_count;
  if (threadIdx.x == 0) {
    long_count = 0;
  }
  // The threads of the block check the offsets of its segments together.
  auto const first = (std::int64_t{blockIdx.x} - shape.first_block) * shape.segments_a_block;
  auto const last = min(first + shape.segments_a_block, offsets.bags) - 1;
  bool const looks =
      first > last || looks_good(offsets, first, last, static_cast<int>(threadIdx.x), kTeamThreads);
  bool const good = __syncthreads_and(looks ? 1 : 0) != 0;
  LaneTeam const lanes(shape);
  auto const group = static_cast<int>(threadIdx.x) >> (shape.log2_columns + shape.log2_rows);
  auto const segment = first + group;
  PlaceRange range{0, 0};
  if (group < shape.segments_a_block && segment <= last &&
      (good || !is_bad_and_cleared(offsets, segment, report, lanes, width, rows))) {
    range = {offsets.at[segment], offsets.at[segment + 1]};
  }
  auto const length = range.end - range.begin;
  if (length > min(shape.most_rows_of_lanes, shape.most_rows_of_block)) {
    if (length <= shape.most_rows_of_block && lanes.column == 0 && lanes.row == 0) {
      long_ones[atomicAdd(&long_count, 1)] = range;
    }
    range.end = range.begin;
  }
  work(lanes, range);
  __syncthreads();
  auto const count = long_count;
  for (int i = 0; i < count; ++i) {
    work(BlockTeam(shape), long_ones[i]);
  }
}

/// Sets the rows before the first and after the last segment to zero, with all threads of the grid.
__device__ inline void clear_rows_of_no_segment(BagOffsets<std::int64_t> const& offsets,
                                                std::int64_t width,
                                                float* rows) {
  auto const held = offsets.all_places();
  auto const before = held.begin * width;
  for (auto i = grid_thread(); i < before; i += grid_stride()) {
    rows[i] = 0.0F;
  }
  auto const end = held.end * width;
  for (auto i = end + grid_thread(); i < offsets.capacity * width; i += grid_stride()) {
    rows[i] = 0.0F;
  }
}

}  // namespace msstream::ops::kernels
