// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// output[row, c] = (input[row, c] - mean) * reciprocal * gain[c] + shift[c], with the row's mean
/// and reciprocal = 1 / sqrt(its variance + epsilon). The variance is the mean square of the
/// deviations, taken in a second pass; the deviations have few roundings of their own size, however
/// large the mean is. May be in place. `width` is at least 1.
struct LayerNormArgs {
  float const* input;  ///< [rows, width]
  float const* gain;   ///< [width]
  float const* shift;  ///< [width]
  float* output;       ///< [rows, width]
  float* means;        ///< [rows]
  float* reciprocals;  ///< [rows]
  std::int64_t rows;
  std::int64_t width;
  float epsilon;
  float* mean_rests = nullptr;  ///< [rows]: what rounding leaves out of the means; or null
};
void layer_norm(HostStream stream, LayerNormArgs const& args);
void layer_norm(CudaStream stream, LayerNormArgs const& args);

/// With n = (x - mean) * reciprocal and g = dy * gain: dx = reciprocal * (g - mean of g - n * mean
/// of g * n), the means over the row. Without `mean_rests` a deviation is wrong by the rounding of
/// the mean.
struct LayerNormInputGradientArgs {
  float const* input;            ///< [rows, width]
  float const* gain;             ///< [width]
  float const* means;            ///< [rows]
  float const* reciprocals;      ///< [rows]
  float const* output_gradient;  ///< [rows, width]
  float* input_gradient;         ///< [rows, width]
  std::int64_t rows;
  std::int64_t width;
  float const* mean_rests = nullptr;  ///< [rows], or null for zeros
};
void layer_norm_input_gradient(HostStream stream, LayerNormInputGradientArgs const& args);
void layer_norm_input_gradient(CudaStream stream, LayerNormInputGradientArgs const& args);

/// gain_gradient[c] = sum over the rows of dy * n, shift_gradient[c] = sum of dy; 0 without rows.
/// The order of the additions depends on the sizes alone.
struct LayerNormParameterGradientArgs {
  float const* input;            ///< [rows, width]
  float const* means;            ///< [rows]
  float const* reciprocals;      ///< [rows]
  float const* output_gradient;  ///< [rows, width]
  std::int64_t rows;
  std::int64_t width;
  void* workspace;        ///< layer_norm_workspace_bytes(stream, rows, width), aligned to 4
  float* gain_gradient;   ///< [width]
  float* shift_gradient;  ///< [width]
  float const* mean_rests = nullptr;  ///< [rows], or null for zeros
};
/// Asks no device. 0 where one launch suffices.
std::size_t layer_norm_workspace_bytes(HostStream stream, std::int64_t rows, std::int64_t width);
std::size_t layer_norm_workspace_bytes(CudaStream stream, std::int64_t rows, std::int64_t width);
void layer_norm_parameter_gradient(HostStream stream, LayerNormParameterGradientArgs const& args);
void layer_norm_parameter_gradient(CudaStream stream, LayerNormParameterGradientArgs const& args);

}  // namespace msstream::ops::kernels
