// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Computes output[r, c] = input[r, c] / max(norm, epsilon), for the Euclidean norm of the row,
/// which is computed in float64. The output may be the input.
struct L2NormalizeArgs {
  float const* input;  ///< [rows, width]
  float* output;       ///< [rows, width]
  std::int64_t rows;
  std::int64_t width;
  float epsilon;
};
void l2_normalize(HostStream stream, L2NormalizeArgs const& args);
void l2_normalize(CudaStream stream, L2NormalizeArgs const& args);

/// Computes the gradient of l2_normalize(): dx = (dy - y * (sum over the row of y * dy)) / norm,
/// for y = x / norm; dy / epsilon where the norm is at most epsilon.
struct L2NormalizeGradientArgs {
  float const* input;
  float const* output_gradient;
  float* input_gradient;
  std::int64_t rows;
  std::int64_t width;
  float epsilon;
};
void l2_normalize_gradient(HostStream stream, L2NormalizeGradientArgs const& args);
void l2_normalize_gradient(CudaStream stream, L2NormalizeGradientArgs const& args);

}  // namespace msstream::ops::kernels
