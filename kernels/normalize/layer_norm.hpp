// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

/// Layer norms of float32, float16 or bfloat16. Elements are widened to float32 when they are read,
/// and what has the type of the input is rounded once, when it is stored. Statistics, weights,
/// biases and sums are float32.
namespace msstream::ops::kernels {

/// Computes output[row, c] = (input[row, c] - mean) * reciprocal * weight[c] + bias[c], with the
/// row's mean and reciprocal = 1 / sqrt(variance + epsilon). The variance is the mean of the
/// squared deviations, computed in a second pass. The rounding errors of a deviation are a few
/// units of its own last place, however large the mean is. The output may be the input. `width` is
/// at least 1.
struct LayerNormArgs {
  void const* input;    ///< [rows, width] of `dtype`
  float const* weight;  ///< [width]
  float const* bias;    ///< [width]
  void* output;         ///< [rows, width] of `dtype`
  float* means;         ///< [rows]
  float* reciprocals;   ///< [rows]
  std::int64_t rows;
  std::int64_t width;
  float epsilon;
  /// The rounding errors of the means, [rows], or null if not requested.
  float* mean_rests = nullptr;
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
};
void layer_norm(HostStream stream, LayerNormArgs const& args);
void layer_norm(CudaStream stream, LayerNormArgs const& args);

/// Computes the input gradient of layer_norm(): dx = reciprocal * (g - mean of g - n * mean of g *
/// n), where n = (x - mean) * reciprocal, g = dy * weight, and the means are over the row. Without
/// `mean_rests` every deviation has the rounding error of the mean.
struct LayerNormInputGradientArgs {
  void const* input;            ///< [rows, width] of `dtype`
  float const* weight;          ///< [width]
  float const* means;           ///< [rows]
  float const* reciprocals;     ///< [rows]
  void const* output_gradient;  ///< [rows, width] of `dtype`
  void* input_gradient;         ///< [rows, width] of `dtype`
  std::int64_t rows;
  std::int64_t width;
  float const* mean_rests = nullptr;  ///< [rows], rounding errors of the means; null for zeros
  DType dtype = DType::float32;       ///< float32, float16 or bfloat16
};
void layer_norm_input_gradient(HostStream stream, LayerNormInputGradientArgs const& args);
void layer_norm_input_gradient(CudaStream stream, LayerNormInputGradientArgs const& args);

/// Computes the parameter gradients of layer_norm(): weight_gradient[c] = sum over the rows of dy *
/// n, where n = (x - mean) * reciprocal, and bias_gradient[c] = sum over the rows of dy. Both are
/// 0 without rows. The order of the additions depends on the sizes alone.
struct LayerNormParameterGradientArgs {
  void const* input;            ///< [rows, width] of `dtype`
  float const* means;           ///< [rows]
  float const* reciprocals;     ///< [rows]
  void const* output_gradient;  ///< [rows, width] of `dtype`
  std::int64_t rows;
  std::int64_t width;
  void* workspace;         ///< layer_norm_workspace_bytes(stream, rows, width), 4-byte aligned
  float* weight_gradient;  ///< [width]
  float* bias_gradient;    ///< [width]
  float const* mean_rests = nullptr;  ///< [rows], rounding errors of the means; null for zeros
  DType dtype = DType::float32;       ///< float32, float16 or bfloat16
};
/// Returns the bytes of workspace that layer_norm_parameter_gradient() needs, without a query of
/// the device. Returns 0 where one launch suffices.
std::size_t layer_norm_workspace_bytes(HostStream stream, std::int64_t rows, std::int64_t width);
std::size_t layer_norm_workspace_bytes(CudaStream stream, std::int64_t rows, std::int64_t width);
void layer_norm_parameter_gradient(HostStream stream, LayerNormParameterGradientArgs const& args);
void layer_norm_parameter_gradient(CudaStream stream, LayerNormParameterGradientArgs const& args);

/// Computes the gradients of weight and bias, as layer_norm_parameter_gradient() does, and that of
/// the input, as layer_norm_input_gradient() does from `weight` [width] into `input_gradient`
/// [rows, width] of the input's type. On CUDA, rows of up to 8,192 elements are read only once.
void layer_norm_gradient(HostStream stream,
                         LayerNormParameterGradientArgs const& args,
                         float const* weight,
                         void* input_gradient);
void layer_norm_gradient(CudaStream stream,
                         LayerNormParameterGradientArgs const& args,
                         float const* weight,
                         void* input_gradient);

}  // namespace msstream::ops::kernels
