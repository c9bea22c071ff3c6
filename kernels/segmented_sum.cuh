// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "segment_chunks.cuh"
#include "segment_span.cuh"
#include "warp_sums.cuh"

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

// Sums of rows over segments of any length, the same bits for the same arguments. Few items: a warp
// a segment, a block where it is long; one launch. Many: equal chunks of the items, and a second
// launch for the segments that cross their borders.

inline bool needs_one_launch(std::int64_t capacity, std::int64_t segments) {
  constexpr std::int64_t kFewItems = 4096;
  return capacity + segments <= kFewItems;
}

inline std::size_t segmented_sum_workspace_bytes(std::int64_t capacity,
                                                 std::int64_t segments,
                                                 std::int64_t width) {
  if (needs_one_launch(capacity, segments)) {
    return 0;
  }
  auto const chunks = Chunking(capacity, segments, width).chunks;
  return static_cast<std::size_t>(chunks) * static_cast<std::size_t>(width) * sizeof(float);
}

template <class Source, int Count>
__global__ void __launch_bounds__(kSumThreads)
    warp_sums_kernel(Source source, SegmentSpan span, RowLanes shape, SumOutput output) {
  auto const existing = span.existing();
  auto const segment = std::int64_t{blockIdx.x} * kSumWarps + warp_of_block();
  if (std::int64_t{blockIdx.x} * kSumWarps >= existing) {
    return;
  }
  auto const places = segment < existing ? span.places_of(segment) : PlaceRange{0, 0};
  sum_runs<Count>(
      places,
      segment < existing,
      shape,
      [&](std::int64_t i, std::int64_t column) {
        auto const place = source.place(i);
        auto row = load_columns<Count>(source.rows + place.row * shape.width + column);
        row.multiply(place.factor);
        return row;
      },
      [&](std::int64_t column, Columns<Count> const& sum) {
        output.write(segment, column, sum, places.end - places.begin);
      });
}

template <int Count, class Source>
void launch_segmented_sum(CudaStream stream,
                          Source const& source,
                          SegmentSpan const& span,
                          std::int64_t capacity,
                          SumOutput const& output,
                          void* workspace) {
  RowLanes const shape(output.width, Count);
  if (needs_one_launch(capacity, span.segments)) {
    warp_sums_kernel<Source, Count><<<grid_for(span.segments, kSumWarps), kSumThreads, 0, stream>>>(
        source, span, shape, output);
    check_launch("segmented sum, one launch");
    return;
  }
  Chunking const chunking(capacity, span.segments, output.width);
  auto* const carries = static_cast<float*>(workspace);
  chunk_sums_kernel<Source, Count>
      <<<grid_for(chunking.chunks, kSumThreads / shape.lanes()), kSumThreads, 0, stream>>>(
          source, span, shape, chunking, output, carries);
  check_launch("segmented sum, chunks");
  carry_sums_kernel<Count><<<grid_for(chunking.chunks, kSumWarps), kSumThreads, 0, stream>>>(
      span, shape, chunking, output, carries);
  check_launch("segmented sum, carries");
}

/// output.rows[s, :] = sum or mean of the source's places of segment s, for the existing segments.
template <class Source>
void segmented_sum(CudaStream stream,
                   Source const& source,
                   SegmentSpan const& span,
                   std::int64_t capacity,
                   SumOutput const& output,
                   void* workspace) {
  if (span.segments == 0 || output.width == 0) {
    return;
  }
  if (allows_vectors(source.rows, output.width, 4) && allows_stores(output.rows, output.width, 4)) {
    launch_segmented_sum<4>(stream, source, span, capacity, output, workspace);
  } else {
    launch_segmented_sum<1>(stream, source, span, capacity, output, workspace);
  }
}

}  // namespace msstream::ops::kernels
