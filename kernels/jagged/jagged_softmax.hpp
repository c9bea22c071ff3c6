// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Computes the softmax of each column within each segment. Segment s has the rows [offsets[s],
/// offsets[s + 1]), or none if its offsets are invalid (BagOffsets::is_bad). Rows that belong to no
/// segment get 0.
struct JaggedSoftmaxArgs {
  float const* values;          ///< [capacity, width]
  std::int64_t const* offsets;  ///< device, [segments + 1], ascending, the last ≤ capacity
  std::int64_t segments;
  std::int64_t capacity;
  std::int64_t width;
  float* output;         ///< [capacity, width], must not be `values`
  void* workspace;       ///< jagged_softmax_workspace_bytes() bytes, 256-byte aligned
  IdReport report = {};  ///< where segments with invalid offsets are reported
};
/// Returns the bytes of workspace that jagged_softmax() needs, without a query of the device.
/// Returns 0 on the host, and where the capacity is too small for a segment that several blocks
/// share.
std::size_t jagged_softmax_workspace_bytes(HostStream stream,
                                           std::int64_t capacity,
                                           std::int64_t width);
std::size_t jagged_softmax_workspace_bytes(CudaStream stream,
                                           std::int64_t capacity,
                                           std::int64_t width);
void jagged_softmax(HostStream stream, JaggedSoftmaxArgs const& args);
void jagged_softmax(CudaStream stream, JaggedSoftmaxArgs const& args);

/// Computes the gradient of jagged_softmax(): value_gradients = y * (dy - (sum over the segment of
/// y * dy)), where y is the output and dy its gradient. The result is 0 wherever y is 0, even if dy
/// is infinite or NaN there.
struct JaggedSoftmaxGradientArgs {
  float const* output;           ///< [capacity, width]
  float const* output_gradient;  ///< [capacity, width]
  std::int64_t const* offsets;
  std::int64_t segments;
  std::int64_t capacity;
  std::int64_t width;
  float* value_gradients;  ///< [capacity, width], must not be an input
  void* workspace;         ///< jagged_softmax_gradient_workspace_bytes() bytes, 256-byte aligned
};
/// Returns the bytes of workspace that jagged_softmax_gradient() needs, like
/// jagged_softmax_workspace_bytes().
std::size_t jagged_softmax_gradient_workspace_bytes(HostStream stream,
                                                    std::int64_t capacity,
                                                    std::int64_t width);
std::size_t jagged_softmax_gradient_workspace_bytes(CudaStream stream,
                                                    std::int64_t capacity,
                                                    std::int64_t width);
void jagged_softmax_gradient(HostStream stream, JaggedSoftmaxGradientArgs const& args);
void jagged_softmax_gradient(CudaStream stream, JaggedSoftmaxGradientArgs const& args);

}  // namespace msstream::ops::kernels
