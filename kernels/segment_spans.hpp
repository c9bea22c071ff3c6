// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/segment.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Reduces segments that are spans of places: what every form of segments becomes on CUDA.
struct SpanArgs {
  float const* values;            ///< [capacity, width]
  std::int32_t const* positions;  ///< [capacity]: place i is row positions[i]; or null: row i
  std::int64_t const* offsets;    ///< [segments + 1]
  bool are_given;                 ///< some segments may be bad, as BagOffsets has it
  std::int64_t segments;
  std::int64_t capacity;
  std::int64_t width;
  SegmentReduction reduction;
  float empty_value;
  IdReport report = {};  ///< of bad segments
  float* output;         ///< [segments, width]
  void* workspace;       ///< span_workspace_bytes() bytes, 256-byte aligned
};
std::size_t span_workspace_bytes(std::int64_t capacity, std::int64_t segments, std::int64_t width);

void sum_spans(CudaStream stream, SpanArgs const& args);         ///< sum, mean, sqrtn
void extrema_of_spans(CudaStream stream, SpanArgs const& args);  ///< max, min
void multiply_spans(CudaStream stream, SpanArgs const& args);    ///< prod
/// The product of what is not 0.
void multiply_nonzeros_of_spans(CudaStream stream, SpanArgs const& args);

}  // namespace msstream::ops::kernels
