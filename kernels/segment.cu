// SPDX-License-Identifier: Apache-2.0
#include "segmented_sum.cuh"

#include <msstream/ops/kernels/segment.hpp>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPlacesAGroup = 16;

/// Place i is row i.
struct ContiguousRows {
  static constexpr bool kIsCostly = false;

  float const* rows;

  __device__ Place place(std::int64_t i) const { return {i, 1.0F}; }
};

/// The segment that holds place i, or the one before it where none does: -1 or `segments`.
__device__ std::int64_t segment_of(SegmentGradientArgs const& args, std::int64_t i) {
  return count_not_above(args.offsets, args.segments + 1, i) - 1;
}

/// A group of lanes writes kPlacesAGroup neighbouring rows and searches only where the segment
/// changes.
template <int Count>
__global__ void segment_gradient_kernel(SegmentGradientArgs args, RowLanes shape) {
  auto const begin = (grid_thread() >> shape.log2_lanes) * kPlacesAGroup;
  auto const end = min(begin + kPlacesAGroup, args.capacity);
  auto const first_place = args.offsets[0];
  auto const places_end = args.offsets[args.segments];
  PlaceRange places{0, 0};
  std::int64_t segment = 0;
  float scale = 1.0F;
  for (auto i = begin; i < end; ++i) {
    bool const is_held = i >= first_place && i < places_end;
    if (is_held && i >= places.end) {
      segment = segment_of(args, i);
      places = {args.offsets[segment], args.offsets[segment + 1]};
      if (args.pooling == Pooling::mean) {
        scale = 1.0F / static_cast<float>(places.end - places.begin);
      }
    }
    for (std::int64_t column = shape.lane() * Count; column < shape.width;
         column += shape.lanes() * Count) {
      Columns<Count> gradient;
      if (is_held) {
        gradient = load_columns<Count>(args.output_gradient + segment * shape.width + column);
        gradient.multiply(scale);
      }
      store_columns(args.value_gradients + i * shape.width + column, gradient);
    }
  }
}

template <int Count>
void launch_gradient(CudaStream stream, SegmentGradientArgs const& args) {
  RowLanes const shape(args.width, Count);
  std::int64_t const places_a_block = kPlacesAGroup * (kThreads / shape.lanes());
  segment_gradient_kernel<Count>
      <<<grid_for(args.capacity, places_a_block), kThreads, 0, stream>>>(args, shape);
  check_launch("segment_reduce_gradient");
}

/// One thread an offset, each a binary search: gaps between ids cost nothing.
__global__ void segment_offsets_kernel(SegmentOffsetsArgs args) {
  auto const segment = grid_thread();
  if (segment <= args.segments) {
    auto const count = args.count != nullptr ? *args.count : args.capacity;
    args.offsets[segment] = count_not_above(args.segment_ids, count, segment - 1);
  }
}

}  // namespace

std::size_t segment_reduce_workspace_bytes(CudaStream,
                                           std::int64_t capacity,
                                           std::int64_t segments,
                                           std::int64_t width) {
  return segmented_sum_workspace_bytes(capacity, segments, width);
}

void segment_reduce(CudaStream stream, SegmentArgs const& args) {
  segmented_sum(stream,
                ContiguousRows{args.values},
                SegmentSpan{args.offsets, nullptr, args.segments},
                args.capacity,
                SumOutput{args.output, args.width, args.pooling == Pooling::mean},
                args.workspace);
}

void segment_reduce_gradient(CudaStream stream, SegmentGradientArgs const& args) {
  if (args.capacity == 0 || args.width == 0) {
    return;
  }
  if (allows_vectors(args.output_gradient, args.width, 4) &&
      allows_stores(args.value_gradients, args.width, 4)) {
    launch_gradient<4>(stream, args);
  } else {
    launch_gradient<1>(stream, args);
  }
}

void segment_offsets(CudaStream stream, SegmentOffsetsArgs const& args) {
  segment_offsets_kernel<<<grid_for(args.segments + 1, kThreads), kThreads, 0, stream>>>(args);
  check_launch("segment_offsets");
}

}  // namespace msstream::ops::kernels
