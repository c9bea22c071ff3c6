// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/id_policy.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The softmax of each column within each segment: segment s has the rows [offsets[s], offsets[s +
/// 1]), none where BagOffsets calls it bad. Rows of no segment get 0.
struct JaggedSoftmaxArgs {
  float const* values;          ///< [capacity, width]
  std::int64_t const* offsets;  ///< device, [segments + 1], ascending, the last ≤ capacity
  std::int64_t segments;
  std::int64_t capacity;
  std::int64_t width;
  float* output;         ///< [capacity, width], not the values
  IdReport report = {};  ///< of bad segments
};
void jagged_softmax(HostStream stream, JaggedSoftmaxArgs const& args);
void jagged_softmax(CudaStream stream, JaggedSoftmaxArgs const& args);

/// value_gradients = y * (dy - (sum over the segment of y * dy)), y being the output; 0 wherever y
/// is 0, whatever dy is there.
struct JaggedSoftmaxGradientArgs {
  float const* output;           ///< [capacity, width]
  float const* output_gradient;  ///< [capacity, width]
  std::int64_t const* offsets;
  std::int64_t segments;
  std::int64_t capacity;
  std::int64_t width;
  float* value_gradients;  ///< [capacity, width], neither of the others
};
void jagged_softmax_gradient(HostStream stream, JaggedSoftmaxGradientArgs const& args);
void jagged_softmax_gradient(CudaStream stream, JaggedSoftmaxGradientArgs const& args);

}  // namespace msstream::ops::kernels
