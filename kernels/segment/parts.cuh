// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/whole_sums.cuh"
#include "common/workspace_layout.hpp"
#include "segment/columns.cuh"
#include "segment/cursor.cuh"
#include "segment/tuning.hpp"

#include <cuda_pipeline.h>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

// A reduction of segments by parts: the positions of all segments are cut into parts of equal
// length, with a group of lanes for each, so that a long segment occupies no group longer than a
// short one:
//
//   segments  0 0 0 1 | 1 1 1 1 | 1 3 4 4      part 0 stores segment 0, part 2 segments 3 and 4
//   part         0    |    1    |    2         segment 1: tails of 0 and 1 + head of 2
//
// A part stores the segments that lie entirely within it. Its tail is its share of a segment that
// continues in the next part. Its head is its share of a segment that began before it and ends in
// it. A second launch combines tails and heads where such a segment ends, and fills the empty
// segments, which its groups of lanes share equally.

/// The parts of equal length into which the positions of a segment reduction are cut. Depends only
/// on the sizes, and on whether rows are read in vectors.
struct SpanParts {
  std::int64_t slices;  ///< the numbers of columns that a team of lanes reduces at once
  std::int64_t places;
  std::int64_t parts;

  SpanParts(std::int64_t capacity, std::int64_t row_width, bool are_vectors) {
    auto const width = std::max<std::int64_t>(row_width, 1);
    int const lanes = RowLanes(width, are_vectors ? 4 : 1).lanes();
    slices = ceil_div<std::int64_t>(width, lanes * span_columns(width, are_vectors));
    auto const teams = std::max<std::int64_t>(kSpanLanes / (span_team_lanes(lanes) * slices), 1);
    auto const fewest = fewest_places_of_part(width);
    auto const most = most_places_of_part(width);
    auto const rounds = std::max<std::int64_t>(ceil_div(capacity, teams * most), 1);
    auto const share = ceil_div(capacity, teams * rounds);
    places = std::clamp(ceil_div(share, fewest) * fewest, fewest, most);
    parts = ceil_div(capacity, places);
  }
};

/// The partial results of segments that extend over several parts, which a second launch combines.
struct SpanBorders {
  float* tails;  ///< [parts, width]
  float* heads;  ///< [parts, width]
  /// The segment that began before each part and ends in it, [parts], or -1.
  std::int64_t* ends_here;
  SpanBorders(WorkspaceLayout& workspace, SpanParts const& parts, std::int64_t width)
      : tails(workspace.take<float>(parts.parts * width)),
        heads(workspace.take<float>(parts.parts * width)),
        ends_here(workspace.take<std::int64_t>(parts.parts)) {}
};

/// The columns of rows that a thread has requested, copied asynchronously into shared memory:
/// `Count` columns at a distance of `Apart`. Each thread reads only columns that it requested, so
/// that it has to wait only for its own copies.
template <int Count, int Apart, int Batch>
class RowsAhead {
 public:
  /// Uses `memory` in shared memory, which must have room for kSpanStages * Batch * kSpanThreads
  /// rows.
  explicit __device__ RowsAhead(float* memory)
      : memory_(memory + threadIdx.x * (Apart == 1 ? Count : 1)) {}

  /// Starts the copy of row k of a batch into shared memory, of which `columns` columns exist from
  /// the thread's first one on.
  __device__ void ask(int stage, int k, float const* from, int columns) const {
    auto* const to = slot(stage, k);
    if constexpr (Apart == 1) {
      __pipeline_memcpy_async(to, from, Count * sizeof(float));
    } else {
#pragma unroll
      for (int c = 0; c < Count; ++c) {
        if (c * Apart < columns) {
          __pipeline_memcpy_async(to + c * kSpanThreads, from + c * Apart, sizeof(float));
        }
      }
    }
  }
  /// Returns row k of a batch, whose columns that do not exist are undefined.
  __device__ Columns<Count> row(int stage, int k) const {
    auto const* const from = slot(stage, k);
    if constexpr (Apart == 1) {
      return load_written<Count>(from);
    } else {
      Columns<Count> columns;
#pragma unroll
      for (int c = 0; c < Count; ++c) {
        columns.at[c] = from[c * kSpanThreads];
      }
      return columns;
    }
  }

 private:
  __device__ float* slot(int stage, int k) const {
    return memory_ + (stage * Batch + k) * (kSpanThreads * Count);
  }

  float* memory_;  ///< in shared memory
};

/// Reduces the segments in each part of the positions with a team of lanes, for the columns that
/// the team holds at once. If a row has more columns, as many blocks as the grid's y dimension
/// share them. These blocks start one after the other, so that neighbouring columns of a row, which
/// may share a sector of the cache, are read at about the same time. If rows are not short, a team
/// has all lanes of a warp, which then do not diverge. Lanes that hold the same column process the
/// batches of rows in turn, and their results are combined where a segment ends. A lane has `Count`
/// columns at a distance of `Apart`: neighbours, or as far apart as a warp has lanes, all of which
/// hold a row.
template <class Combiner, class Rows, int Count, int Apart>
__global__ void __launch_bounds__(kSpanThreads, kSpanBlocks)
    span_parts_kernel(Rows source,
                      SegmentBounds bounds,
                      RowLanes shape,
                      SpanParts parts,
                      SegmentOutput output,
                      SpanBorders borders) {
  constexpr int kBatch = span_batch_rows(Count);
  __shared__ __align__(16) float memory[kSpanStages * kBatch * kSpanThreads * Count];
  RowsAhead<Count, Apart, kBatch> const ahead(memory);
  LaneGroup const team(span_team_lanes(shape.lanes()));
  int const turns = team.lanes >> shape.log2_lanes;
  int const step = kBatch * turns;
  // Blocks start in ascending order of this number.
  unsigned const number = blockIdx.y * gridDim.x + blockIdx.x;
  unsigned const share = number % gridDim.y;
  // The number of the part has 32 bits, which leaves registers to the rows. The bits suffice,
  // because parts are long if the capacity is large.
  auto const part = static_cast<int>(
      (std::int64_t{number / gridDim.y} * kSpanThreads + threadIdx.x) >> (__ffs(team.lanes) - 1));
  if (part >= parts.parts) {
    return;
  }
  auto const first_place = part * parts.places;
  auto const places = bounds.held(first_place, min(first_place + parts.places, bounds.capacity));
  bool const tells = share == 0 && team.lane == 0;
  if (places.begin >= places.end) {
    if (tells) {
      borders.ends_here[part] = -1;
    }
    return;
  }
  int const column =
      static_cast<int>(share) * shape.lanes() * Count + shape.lane() * (Apart == 1 ? Count : 1);
  bool const is_column = column < shape.width;
  auto const length = static_cast<int>(places.end - places.begin);
  int const turn = (team.lane >> shape.log2_lanes) * kBatch;
  auto const batch_at = [&](int from) {
    return source.template batch<kBatch>(places.begin, from + turn, length);
  };
  auto const* const columns = source.rows_from(places.begin, shape.width) + column;
  auto const width = static_cast<int>(shape.width);
  auto const ask = [&](auto const& batch, int from, int stage) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (is_column && from + turn + k < length) {
        ahead.ask(stage, k, columns + std::int64_t{batch.row(k)} * width, width - column);
      }
    }
    __pipeline_commit();
  };
  auto next = batch_at(0);
#pragma unroll
  for (int stage = 0; stage + 1 < kSpanStages; ++stage) {
    ask(next, stage * step, stage);
    next = batch_at((stage + 1) * step);
  }

  SegmentCursor cursor(bounds, team, places);
  bool is_head = cursor.begins_before();
  if (tells) {
    bool const ends = is_head && cursor.end() <= length && !cursor.is_bad();
    borders.ends_here[part] = ends ? cursor.segment() : -1;
  }
  int begin = 0;
  auto total = nothing_of<Combiner, Count>();
  WholeSums<Count> whole;
  // The float32 sum is added to the float64 total at each multiple of this many positions, if the
  // segment has at least as many positions in the part by then.
  int const places_of_part = kTermsOfPart * turns;  // a power of two
  auto const is_folded = [&](int border) {
    return adds_up<Combiner> && (border & -places_of_part) - begin >= places_of_part;
  };
  auto const of_all_turns = [&](int last_border) {
    if (is_folded(last_border)) {
      total = whole.get(total);
    }
    for (int distance = shape.lanes(); distance < team.lanes; distance *= 2) {
      Columns<Count> other;
#pragma unroll
      for (int c = 0; c < Count; ++c) {
        other.at[c] = __shfl_xor_sync(team.mask, total.at[c], distance);
      }
      combine<Combiner>(total, other);
    }
  };
  bool const stores = is_column && turn == 0;
  auto const store = [&](int last_border) {
    of_all_turns(last_border);
    if (stores && is_head) {
      store_columns_apart<Apart>(borders.heads + part * shape.width, column, shape.width, total);
    } else if (stores && !cursor.is_bad()) {
      output.template write<Apart>(cursor.segment(), column, total, cursor.end() - begin);
    }
  };
  int stage = 0;
  for (int from = 0; from < length; from += step) {
    ask(next, from + (kSpanStages - 1) * step, stage == 0 ? kSpanStages - 1 : stage - 1);
    next = batch_at(from + kSpanStages * step);
    __pipeline_wait_prior(kSpanStages - 1);
    Columns<Count> rows[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      rows[k] = elements_of<Combiner>(ahead.row(stage, k));
    }
    stage = stage + 1 == kSpanStages ? 0 : stage + 1;
    // The ends of segments are handled outside of the unrolled loop, so that their code exists only
    // once.
    int const batch_end = min(from + step, length);
    for (int done = from;;) {
      int const stop = min(cursor.end(), batch_end);
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (from + turn + k >= done && from + turn + k < stop) {
          combine<Combiner>(total, rows[k]);
        }
      }
      if (stop == batch_end) {
        break;
      }
      store(from);
      cursor.advance(stop);
      is_head = false;
      done = begin = stop;
      total = nothing_of<Combiner, Count>();
    }
    if ((batch_end & (places_of_part - 1)) == 0 && is_folded(batch_end)) {
      whole.fold(total, !is_folded(batch_end - places_of_part));
    }
  }
  if (cursor.end() <= length) {
    store(length);
    return;
  }
  of_all_turns(length);
  if (stores) {
    store_columns_apart<Apart>(borders.tails + part * shape.width, column, shape.width, total);
  }
}

}  // namespace msstream::ops::kernels
