// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "segment/segment.hpp"

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// The arguments of reductions of segments that are spans of positions, into which every form of
/// segments is converted on CUDA.
struct SpanArgs {
  float const* values;            ///< [capacity, width]
  std::int32_t const* positions;  ///< [capacity]: position i is row positions[i]; if null, row i
  std::int64_t const* offsets;    ///< [segments + 1]
  bool are_given;  ///< whether a caller gave the offsets, so that they may be invalid (BagOffsets)
  std::int64_t segments;
  std::int64_t capacity;
  std::int64_t width;
  SegmentReduction reduction;
  float empty_value;
  IdReport report = {};  ///< where segments with invalid offsets are reported
  float* output;         ///< [segments, width]
  void* workspace;       ///< span_workspace_bytes() bytes, 256-byte aligned
};
std::size_t span_workspace_bytes(std::int64_t capacity, std::int64_t segments, std::int64_t width);

void sum_spans(CudaStream stream, SpanArgs const& args);         ///< for sum, mean and sqrtn
void extrema_of_spans(CudaStream stream, SpanArgs const& args);  ///< for max and min
void multiply_spans(CudaStream stream, SpanArgs const& args);    ///< for prod
/// Computes the product of those elements of each segment that are not 0.
void multiply_nonzeros_of_spans(CudaStream stream, SpanArgs const& args);

}  // namespace msstream::ops::kernels
