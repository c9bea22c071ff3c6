// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "ids/bag_report.cuh"
#include "segment/columns.cuh"
#include "segment/cursor.cuh"
#include "segment/runs.cuh"
#include "segment/tuning.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// Reduces segments of narrow rows (at most kNarrowWidth columns), of which there are at most
/// kNarrowPlaces. A team of `team_lanes` lanes, which all hold different rows or columns, reduces a
/// segment of usual length. The team's warp reduces a segment that is too long for the team, and
/// the whole block one that is too long for a warp. Which of them does so, and so the order of the
/// additions, depends only on the sizes and on the length of the segment.
template <class Combiner, class Rows, int Count>
__global__ void __launch_bounds__(kNarrowWarps * 32, 2) narrow_spans_kernel(Rows source,
                                                                            SegmentBounds bounds,
                                                                            RowLanes shape,
                                                                            int team_lanes,
                                                                            SegmentOutput output,
                                                                            IdReport report) {
  // Segments do not overlap, so that no more of them can be long.
  __shared__ std::int64_t long_segments[kNarrowPlaces / kMostNarrowRowsOfWarp];
  __shared__ int long_count;
  if (threadIdx.x == 0) {
    long_count = 0;
  }
  __syncthreads();
  LaneGroup const warp(32);
  LaneGroup const team(team_lanes);
  int const teams = 32 / team_lanes;
  int const number = warp.lane / team_lanes;
  auto const first = grid_thread() / 32 * teams;
  auto const end = min(first + teams, bounds.segments);
  bool const is_bad = bounds.is_bad_by_lanes(first, end, warp);
  if (is_bad) {
    report_bad(report, bounds.judged(), first + warp.lane);
  }
  unsigned const bad = warp.ballot(is_bad);
  auto const segment = first + number;
  bool const exists = segment < end;
  auto const places =
      exists && (bad >> number & 1U) == 0 ? bounds.places_of(segment) : PlaceRange{0, 0};
  auto const length = places.end - places.begin;

  int const column = shape.lane() * Count;
  bool const is_column = column < shape.width;
  auto const load = [&](std::int64_t i) {
    auto const row = std::int64_t{source.template batch<1>(i, 0, 1).row(0)};
    return is_column ? elements_of<Combiner>(load_once<Count>(source.rows_from(i, shape.width) +
                                                              row * shape.width + column))
                     : nothing_of<Combiner, Count>();
  };
  auto const store = [&](std::int64_t of, Columns<Count> const& total, std::int64_t rows) {
    if (!is_column) {
      return;
    }
    if (rows > 0) {
      output.write(of, column, total, rows);
    } else {
      output.write_empty<Count>(of, column);
    }
  };

  int const rows_at_once = kRunRows * (team_lanes >> shape.log2_lanes);
  bool const is_short = length <= kNarrowRounds * rows_at_once;
  auto const total = reduce_by_team<Combiner, Count>(
      is_short ? places : PlaceRange{0, 0}, shape, team_lanes, load);
  if (exists && is_short && team.lane < shape.lanes()) {
    store(segment, total, length);
  }
  bool const is_long = length > kMostNarrowRowsOfWarp;
  if (is_long && team.lane == 0) {
    // The order of the list does not affect the results.
    long_segments[atomicAdd(&long_count, 1)] = segment;
  }
  auto medium = warp.ballot(!is_short && !is_long && team.lane == 0);
  for (; medium != 0; medium &= medium - 1) {
    auto const one = first + (__ffs(static_cast<int>(medium)) - 1) / team_lanes;
    auto const rows = bounds.places_of(one);
    auto const sum = reduce_long_by_warp<Combiner, Count>(rows, shape, load);
    if (warp.lane < shape.lanes()) {
      store(one, sum, rows.end - rows.begin);
    }
  }
  __syncthreads();
  for (int i = 0; i < long_count; ++i) {
    auto const one = long_segments[i];
    auto const rows = bounds.places_of(one);
    reduce_by_block<Combiner, kNarrowWarps, Count>(
        rows,
        {0, shape.width},
        0,
        shape,
        [&](std::int64_t row, bool /*is_last*/, std::int64_t /*column*/) { return load(row); },
        [&](std::int64_t /*column*/, Columns<Count> const& sum) {
          store(one, sum, rows.end - rows.begin);
        });
  }
}

}  // namespace msstream::ops::kernels
