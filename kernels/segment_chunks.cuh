// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_check.cuh"
#include "segment_span.cuh"
#include "warp_sums.cuh"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

// Places and segment ends are merged into one sequence of items, which is cut into chunks of
// equal length (merge path: Merrill & Garland, Merge-based Parallel Sparse Matrix-Vector
// Multiplication, 2016), so that neither one long segment nor many empty ones keep a warp busy:
//
//   offsets 0 3 3 7   items  p0 p1 p2 e0 | e1 p3 p4 p5 | p6 e2      p place, e end of a segment
//                     chunk       0      |      1      |   2
//
// A chunk writes each segment that it ends, and keeps the sum of the one that it leaves open as its
// carry. The second launch adds to each segment that was open at a border the carries before its
// end.

/// Equal parts of the merged items; depends on the sizes alone.
struct Chunking {
  std::int64_t chunk_items;
  std::int64_t chunks;

  Chunking(std::int64_t capacity, std::int64_t segments, std::int64_t width) {
    constexpr std::int64_t kLanes = std::int64_t{1} << 18;  // fills a large GPU about once
    constexpr std::int64_t kFewestItems = 64;
    std::int64_t const groups = kLanes >> RowLanes(width, width % 4 == 0 ? 4 : 1).log2_lanes;
    auto const items = capacity + segments;
    chunk_items = std::max(kFewestItems, ceil_div(items, groups));
    chunks = ceil_div(items, chunk_items);
  }
};

/// Where a chunk begins: `segment` segments have ended, the next place is `place`.
struct Cursor {
  std::int64_t segment;
  std::int64_t place;
};

/// The cursor after the first `items` items. Segment s ends as item offsets[s + 1] - offsets[0] +
/// s.
__device__ inline Cursor cursor_after(SegmentSpan const& span,
                                      std::int64_t existing,
                                      std::int64_t items) {
  auto const first_place = span.offsets[0];
  std::int64_t low = 0;
  std::int64_t high = min(existing, items);
  while (low < high) {
    auto const middle = low + (high - low) / 2;
    if (span.offsets[middle + 1] - first_place + middle < items) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return {low, first_place + items - low};
}

__device__ inline std::int64_t item_count(SegmentSpan const& span, std::int64_t existing) {
  return span.offsets[existing] - span.offsets[0] + existing;
}

/// The rows of places [first, first + InFlight) below `end`, all requested before the first is
/// used.
template <int InFlight, int Count, class Source>
__device__ void load_places(Source const& source,
                            RowLanes const& shape,
                            std::int64_t first,
                            std::int64_t end,
                            std::int64_t column,
                            Columns<Count> (&rows)[InFlight]) {
  Place places[InFlight];
  if (Source::kIsCostly && shape.lanes() >= InFlight) {
    auto const lane_of_warp = static_cast<int>(threadIdx.x) % warpSize;
    unsigned const group_mask =
        (shape.lanes() == warpSize ? 0xFFFFFFFFU : (1U << shape.lanes()) - 1U)
        << (lane_of_warp - shape.lane());
    Place mine;
    if (shape.lane() < InFlight && first + shape.lane() < end) {
      mine = source.place(first + shape.lane());
    }
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      places[k] = {__shfl_sync(group_mask, mine.row, k, shape.lanes()),
                   __shfl_sync(group_mask, mine.factor, k, shape.lanes())};
    }
  } else {
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      places[k] = first + k < end ? source.place(first + k) : Place{};
    }
  }
#pragma unroll
  for (int k = 0; k < InFlight; ++k) {
    rows[k] = Columns<Count>{};
    if (first + k < end && column < shape.width) {
      rows[k] = load_columns<Count>(source.rows + places[k].row * shape.width + column);
      rows[k].multiply(places[k].factor);
    }
  }
}

/// A group of lanes a chunk.
template <class Source, int Count>
__global__ void __launch_bounds__(kSumThreads) chunk_sums_kernel(Source source,
                                                                 SegmentSpan span,
                                                                 RowLanes shape,
                                                                 Chunking chunking,
                                                                 SumOutput output,
                                                                 float* carries) {
  constexpr int kInFlight = 8;
  auto const chunk = grid_thread() >> shape.log2_lanes;
  auto const existing = span.existing();
  auto const items = item_count(span, existing);
  auto const begin = cursor_after(span, existing, min(chunk * chunking.chunk_items, items));
  auto const end = cursor_after(span, existing, min((chunk + 1) * chunking.chunk_items, items));
  if (begin.segment + begin.place == end.segment + end.place) {
    return;  // beyond the last item
  }
  // All lanes of a group take the same number of turns, because they exchange places.
  for (std::int64_t base = 0; base < shape.width; base += shape.lanes() * Count) {
    auto const column = base + shape.lane() * Count;
    bool const is_column = column < shape.width;
    auto segment = begin.segment;
    auto segment_places =
        segment < existing ? span.places_of(segment) : PlaceRange{begin.place, end.place};
    bool began_before = begin.place > segment_places.begin;
    Columns<Count> sum;
    auto const end_segment = [&] {
      auto const places = segment_places.end - segment_places.begin;
      if (is_column && began_before) {
        store_columns(output.rows + segment * shape.width + column, sum);
      } else if (is_column) {
        output.write(segment, column, sum, places);
      }
      began_before = false;
      sum = Columns<Count>{};
      if (++segment < existing) {
        segment_places = span.places_of(segment);
      }
    };
    for (auto first = begin.place; first < end.place; first += kInFlight) {
      Columns<Count> rows[kInFlight];
      load_places(source, shape, first, end.place, column, rows);
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (first + k < end.place) {
          while (segment_places.end <= first + k) {
            end_segment();
          }
          sum.add(rows[k]);
        }
      }
    }
    while (segment < end.segment) {
      end_segment();
    }
    if (is_column) {
      store_columns(carries + chunk * shape.width + column, sum);
    }
  }
}

/// A warp a chunk: if the chunk ends a segment that an earlier chunk began, the carries in between
/// are added to what the chunk wrote. No other warp writes that row.
template <int Count>
__global__ void __launch_bounds__(kSumThreads) carry_sums_kernel(
    SegmentSpan span, RowLanes shape, Chunking chunking, SumOutput output, float const* carries) {
  auto const chunk = std::int64_t{blockIdx.x} * kSumWarps + warp_of_block();
  auto const existing = span.existing();
  auto const items = item_count(span, existing);
  auto const begin = cursor_after(span, existing, min(chunk * chunking.chunk_items, items));
  bool ends_here = false;
  PlaceRange places{0, 0};
  PlaceRange open_chunks{0, 0};
  if (begin.segment < existing) {
    places = span.places_of(begin.segment);
    auto const first_place = span.offsets[0];
    auto const end_item = places.end - first_place + begin.segment;
    ends_here = begin.place > places.begin && end_item < (chunk + 1) * chunking.chunk_items;
    if (ends_here) {
      auto const first_item = places.begin - first_place + begin.segment;
      open_chunks = {first_item / chunking.chunk_items, chunk};
    }
  }
  sum_runs<Count>(
      open_chunks,
      ends_here,
      shape,
      [&](std::int64_t i, std::int64_t column) {
        return load_columns<Count>(carries + i * shape.width + column);
      },
      [&](std::int64_t column, Columns<Count> sum) {
        // An ordinary load: the row is written below.
        auto const* const row = output.rows + begin.segment * shape.width + column;
        Columns<Count> last;
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          last.at[c] = row[c];
        }
        sum.add(last);
        output.write(begin.segment, column, sum, places.end - places.begin);
      });
}

}  // namespace msstream::ops::kernels
