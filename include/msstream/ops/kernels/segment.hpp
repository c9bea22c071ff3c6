// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/bag_view.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// output[s, :] = sum or mean of values[offsets[s] : offsets[s + 1], :]; 0 for an empty segment.
/// Balanced over segments of any length, and over many empty ones: the work is cut into equal parts
/// that depend on the sizes alone, so that the same arguments give the same bits. On the host the
/// additions are in ascending order.
struct SegmentArgs {
  float const* values;  ///< [capacity, width]
  std::int64_t capacity;
  std::int64_t width;
  std::int64_t const* offsets;  ///< device, [segments + 1], ascending, the last ≤ capacity
  std::int64_t segments;
  Pooling pooling;
  float* output;    ///< [segments, width]
  void* workspace;  ///< segment_reduce_workspace_bytes(…) bytes, 256-byte aligned
};
/// Asks no device. 0 on the host, and where the CUDA twin needs one launch and no workspace.
std::size_t segment_reduce_workspace_bytes(HostStream stream,
                                           std::int64_t capacity,
                                           std::int64_t segments,
                                           std::int64_t width);
std::size_t segment_reduce_workspace_bytes(CudaStream stream,
                                           std::int64_t capacity,
                                           std::int64_t segments,
                                           std::int64_t width);
void segment_reduce(HostStream stream, SegmentArgs const& args);
void segment_reduce(CudaStream stream, SegmentArgs const& args);

/// value_gradients[i, :] = scale(s) * output_gradient[s, :] for the segment s that holds i; 0 for
/// places in no segment.
struct SegmentGradientArgs {
  float const* output_gradient;  ///< [segments, width]
  std::int64_t const* offsets;
  std::int64_t segments;
  std::int64_t capacity;
  std::int64_t width;
  Pooling pooling;
  float* value_gradients;  ///< [capacity, width]
};
void segment_reduce_gradient(HostStream stream, SegmentGradientArgs const& args);
void segment_reduce_gradient(CudaStream stream, SegmentGradientArgs const& args);

/// offsets[s] = number of ids < s, for ascending segment ids: what the two operations above take.
/// Ids < 0 come before every segment and ids ≥ segments after the last one: both are left out.
struct SegmentOffsetsArgs {
  std::int64_t const* segment_ids;  ///< [capacity], ascending
  std::int64_t capacity;
  std::int64_t const* count;  ///< device scalar ≤ capacity, or null
  std::int64_t segments;
  std::int64_t* offsets;  ///< [segments + 1], written
};
void segment_offsets(HostStream stream, SegmentOffsetsArgs const& args);
void segment_offsets(CudaStream stream, SegmentOffsetsArgs const& args);

}  // namespace msstream::ops::kernels
