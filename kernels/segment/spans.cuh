// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/workspace_layout.hpp"
#include "ids/bag_report.cuh"
#include "segment/cursor.cuh"
#include "segment/narrow.cuh"
#include "segment/parts.cuh"
#include "segment/rows.cuh"
#include "segment/runs.cuh"
#include "segment/spans.hpp"
#include "segment/tuning.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

/// Returns the first column of the calling lane, if blocks along the grid's y dimension share the
/// columns of a row.
template <int Count>
__device__ std::int64_t column_of_block(RowLanes const& shape) {
  return (std::int64_t{blockIdx.y} * shape.lanes() + shape.lane()) * Count;
}

/// Fills the rows of segments that are empty or have invalid offsets, and reports the latter. The
/// warps along the grid's x dimension share the segments, blocks along y the columns. A warp checks
/// 32 segments at once, however few lanes hold a row, because the check of one segment's offsets by
/// one lane is many loads that wait for each other.
template <int Count>
__device__ void fill_empty(SegmentBounds const& bounds,
                           RowLanes const& shape,
                           SegmentOutput const& output,
                           IdReport const& report) {
  auto const column = column_of_block<Count>(shape);
  LaneGroup const warp(32);
  auto const share = ceil_div(bounds.segments, grid_stride() / 32);
  auto const begin = grid_thread() / 32 * share;
  auto const end = min(begin + share, bounds.segments);
  int const groups = 32 >> shape.log2_lanes;
  for (auto first = begin; first < end; first += 32) {
    auto const mine = first + warp.lane;
    bool const is_bad = bounds.is_bad_by_lanes(first, end, warp);
    bool const is_empty = is_bad || (mine < end && bounds.at(mine) == bounds.at(mine + 1));
    if (is_bad && blockIdx.y == 0) {
      report_bad(report, bounds.judged(), mine);
    }
    auto const empty = warp.ballot(is_empty);
    if (empty == 0 || column >= shape.width) {
      continue;
    }
    for (int k = warp.lane >> shape.log2_lanes; k < 32; k += groups) {
      if ((empty >> k & 1U) != 0) {
        output.write_empty<Count>(first + k, column);
      }
    }
  }
}

/// Combines the partial results of a segment that began before a part of the positions and ends in
/// it, with a group of lanes per part, or with the whole block if the segment spans many parts.
/// Blocks along the grid's y dimension share the columns. No other group writes these columns of
/// the segment's row.
template <class Combiner, int Count>
__global__ void __launch_bounds__(kBorderWarps * 32) span_borders_kernel(SegmentBounds bounds,
                                                                         RowLanes shape,
                                                                         SpanParts parts,
                                                                         SegmentOutput output,
                                                                         SpanBorders borders,
                                                                         IdReport report) {
  __shared__ std::int64_t long_segments[kMostLongRuns];
  __shared__ int long_count;
  if (threadIdx.x == 0) {
    long_count = 0;
  }
  __syncthreads();
  auto const part = grid_thread() >> shape.log2_lanes;
  auto const segment = part < parts.parts ? borders.ends_here[part] : -1;
  auto const parts_of = [&](PlaceRange places) {
    return PlaceRange{places.begin / parts.places, ceil_div(places.end, parts.places)};
  };
  auto const load = [&](std::int64_t i, bool is_last, std::int64_t column) {
    return load_written<Count>((is_last ? borders.heads : borders.tails) + i * shape.width +
                               column);
  };
  if (segment >= 0) {
    auto const places = bounds.places_of(segment);
    auto const run = parts_of(places);
    auto const column = column_of_block<Count>(shape);
    if (run.end - run.begin > kLongRun) {
      if (shape.lane() == 0) {
        // The order of the list does not affect the results.
        long_segments[atomicAdd(&long_count, 1)] = segment;
      }
    } else if (column < shape.width) {
      auto total = nothing_of<Combiner, Count>();
#pragma unroll 4
      for (auto i = run.begin; i < run.end; ++i) {
        combine<Combiner>(total, load(i, i + 1 == run.end, column));
      }
      output.write(segment, column, total, places.end - places.begin);
    }
  }
  __syncthreads();
  std::int64_t const columns_a_block = shape.lanes() * Count;
  PlaceRange const columns{blockIdx.y * columns_a_block, (blockIdx.y + 1) * columns_a_block};
#pragma unroll 1
  for (int i = 0; i < long_count; ++i) {
    auto const long_one = long_segments[i];
    auto const places = bounds.places_of(long_one);
    reduce_by_block<Combiner, kBorderWarps, Count>(
        parts_of(places),
        columns,
        0,
        shape,
        load,
        [&](std::int64_t column, Columns<Count> const& total) {
          output.write(long_one, column, total, places.end - places.begin);
        });
  }
  fill_empty<Count>(bounds, shape, output, report);
}

/// Reduces each segment with one warp. Blocks along the grid's y dimension share the columns, if
/// there is more than one.
template <class Combiner, class Rows, int Count>
__global__ void __launch_bounds__(kFewSpanWarps * 32, 2) few_spans_kernel(
    Rows source, SegmentBounds bounds, RowLanes shape, SegmentOutput output, IdReport report) {
  auto const segment = std::int64_t{blockIdx.x} * kFewSpanWarps + warp_of_block();
  bool const exists = segment < bounds.segments;
  LaneGroup const warp(32);
  bool const is_bad =
      warp.ballot(bounds.is_bad_by_lanes(segment, min(segment + 1, bounds.segments), warp)) != 0;
  if (is_bad && threadIdx.x % 32 == 0 && blockIdx.y == 0) {
    report_bad(report, bounds.judged(), segment);
  }
  auto const places = exists && !is_bad ? bounds.places_of(segment) : PlaceRange{0, 0};
  bool const is_empty = places.begin >= places.end;
  std::int64_t const columns_a_block = shape.lanes() * Count;
  auto const columns =
      gridDim.y > 1 ? PlaceRange{blockIdx.y * columns_a_block, (blockIdx.y + 1) * columns_a_block}
                    : PlaceRange{0, shape.width};
  reduce_runs<Combiner, kFewSpanWarps, Count>(
      {places, exists, columns},
      shape,
      [&](std::int64_t i, bool /*is_last*/, std::int64_t column) {
        auto const row = std::int64_t{source.template batch<1>(i, 0, 1).row(0)};
        return elements_of<Combiner>(
            load_once<Count>(source.rows_from(i, shape.width) + row * shape.width + column));
      },
      [&](std::int64_t column, Columns<Count> const& total) {
        if (is_empty) {
          output.write_empty<Count>(segment, column);
        } else {
          output.write(segment, column, total, places.end - places.begin);
        }
      });
}

/// Returns whether one launch, with a warp per segment, is fastest. Long segments occupy their
/// block one after the other, so that it is not if segments are long on average, unless rows have
/// more columns than the grids of the other launches have blocks for.
inline bool has_few_items(std::int64_t capacity, std::int64_t segments, std::int64_t width) {
  bool const is_very_wide = width > kMostSharedWidth;
  return (is_very_wide && capacity == 0) ||
         (capacity + segments <= kFewSpanItems &&
          (is_very_wide || capacity <= std::max(kLongRun * segments, kFewLongPlaces)));
}

/// Returns whether one launch takes all segments, so that no workspace is needed.
inline bool is_one_launch(std::int64_t capacity, std::int64_t segments, std::int64_t width) {
  return has_few_items(capacity, segments, width) ||
         (width <= kNarrowWidth && capacity <= kNarrowPlaces && segments <= kNarrowSegments);
}

template <class Combiner, int Count, class Rows>
void launch_spans(CudaStream stream, SpanArgs const& args, Rows const& rows) {
  RowLanes const shape(args.width, Count);
  SegmentBounds const bounds{args.offsets, args.segments, args.capacity, args.are_given};
  SegmentOutput const output{args.output, args.width, args.reduction, args.empty_value};
  if (has_few_items(args.capacity, args.segments, args.width)) {
    auto const shares = ceil_div<std::int64_t>(args.width, shape.lanes() * Count);
    dim3 const grid(grid_for(args.segments, kFewSpanWarps),
                    args.width <= kMostSharedWidth ? static_cast<unsigned>(shares) : 1U);
    few_spans_kernel<Combiner, Rows, Count>
        <<<grid, kFewSpanWarps * 32, 0, stream>>>(rows, bounds, shape, output, args.report);
    check_launch("segment_reduce, one launch");
    return;
  }
  if (is_one_launch(args.capacity, args.segments, args.width)) {
    int const lanes = narrow_team_lanes(args.capacity, args.segments, shape.lanes());
    narrow_spans_kernel<Combiner, Rows, Count>
        <<<grid_for(args.segments, kNarrowWarps * 32 / lanes), kNarrowWarps * 32, 0, stream>>>(
            rows, bounds, shape, lanes, output, args.report);
    check_launch("segment_reduce, narrow rows");
    return;
  }
  SpanParts const parts(args.capacity, args.width, Count == 4);
  WorkspaceLayout workspace(args.workspace);
  SpanBorders const borders(workspace, parts, args.width);
  if (parts.parts > 0) {
    dim3 const grid(grid_for(parts.parts, kSpanThreads / span_team_lanes(shape.lanes())),
                    static_cast<unsigned>(parts.slices));
    auto* kernel = span_parts_kernel<Combiner, Rows, Count, 1>;
    if constexpr (Count == 1) {
      if (span_columns(args.width, false) == kColumnsApart) {
        kernel = span_parts_kernel<Combiner, Rows, kColumnsApart, 32>;
      }
    }
    kernel<<<grid, kSpanThreads, 0, stream>>>(rows, bounds, shape, parts, output, borders);
    check_launch("segment_reduce, parts");
  }
  auto const columns = args.width <= kMostSharedWidth ? kBorderColumns : kWideBorderColumns;
  RowLanes borders_shape(std::min(args.width, columns), Count);
  borders_shape.width = args.width;
  auto const fill_blocks =
      std::min(ceil_div(args.segments, kFillsOfWarp * kBorderWarps), kMostFillBlocks);
  dim3 const grid(
      std::max(grid_for(parts.parts, kBorderWarps * 32 / borders_shape.lanes()),
               static_cast<unsigned>(fill_blocks)),
      static_cast<unsigned>(ceil_div<std::int64_t>(args.width, borders_shape.lanes() * Count)));
  span_borders_kernel<Combiner, Count><<<grid, kBorderWarps * 32, 0, stream>>>(
      bounds, borders_shape, parts, output, borders, args.report);
  check_launch("segment_reduce, borders");
}

template <class Combiner, int Count>
void launch_spans(CudaStream stream, SpanArgs const& args) {
  if (args.positions != nullptr) {
    launch_spans<Combiner, Count>(stream, args, PermutedRows{args.values, args.positions});
  } else {
    launch_spans<Combiner, Count>(stream, args, ContiguousRows{args.values});
  }
}

template <class Combiner>
void reduce_spans(CudaStream stream, SpanArgs const& args) {
  if (args.segments == 0 || args.width == 0) {
    return;
  }
  if (allows_vectors(args.values, args.width, 4) && allows_stores(args.output, args.width, 4)) {
    launch_spans<Combiner, 4>(stream, args);
  } else {
    launch_spans<Combiner, 1>(stream, args);
  }
}

}  // namespace msstream::ops::kernels
