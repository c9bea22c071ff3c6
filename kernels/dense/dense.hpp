// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Computes output = activation(input · weight + bias) for each of `layers` layers, which are
/// stored one after the other in every array. All arrays are row-major, of one type; sums are
/// float32.
struct DenseArgs {
  void const* input;   ///< [layers, batch, inputs], or [batch, inputs] if shared_input
  void const* weight;  ///< [layers, inputs, outputs]
  void const* bias;    ///< [layers, outputs], or null
  void* output;        ///< [layers, batch, outputs]
  std::int64_t batch;
  std::int64_t inputs;
  std::int64_t outputs;
  Activation activation;
  std::int64_t layers = 1;  ///< at most kMostDenseLayers
  bool shared_input = false;
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
  /// [layers, batch, outputs], set to input · weight + bias by gelu_tanh, which requires it. Null
  /// for other activations.
  void* pre_activation = nullptr;
};
inline constexpr std::int64_t kMostDenseLayers = 65'535;
void dense(HostStream stream, DenseArgs const& args);
void dense(CudaStream stream, DenseArgs const& args);

/// Computes input_gradient = output_gradient · weightᵀ + added for each layer, in arrays of one
/// type. The sum is rounded once.
struct DenseInputGradientArgs {
  void const* output_gradient;  ///< [layers, batch, outputs], gradient before the activation
  void const* weight;           ///< [layers, inputs, outputs]
  void* input_gradient;         ///< [layers, batch, inputs]
  std::int64_t batch;
  std::int64_t inputs;
  std::int64_t outputs;
  std::int64_t layers = 1;
  DType dtype = DType::float32;
  void const* added = nullptr;  ///< [layers, batch, inputs]; null: nothing is added
};
void dense_input_gradient(HostStream stream, DenseInputGradientArgs const& args);
void dense_input_gradient(CudaStream stream, DenseInputGradientArgs const& args);

/// Computes weight_gradient = inputᵀ · output_gradient and bias_gradient = the column sums of
/// output_gradient, for each layer: float32, from arrays of one type. Both gradients are 0 for an
/// empty batch. On CUDA a long batch is summed in the parts that plan_parts() of tall_product.hpp
/// returns.
struct DenseWeightGradientArgs {
  void const* input;            ///< [layers, batch, inputs], or [batch, inputs] if shared_input
  void const* output_gradient;  ///< [layers, batch, outputs], gradient before the activation
  float* weight_gradient;       ///< [layers, inputs, outputs]
  float* bias_gradient;         ///< [layers, outputs], or null
  std::int64_t batch;
  std::int64_t inputs;
  std::int64_t outputs;
  std::int64_t layers = 1;
  bool shared_input = false;
  void* workspace = nullptr;     ///< dense_weight_gradient_workspace_bytes() bytes, 4-byte aligned
  DType dtype = DType::float32;  ///< of input and output_gradient
};
/// Returns the bytes of workspace that dense_weight_gradient() needs, from the sizes in `args`
/// alone, without a query of the device. Returns 0 on the host, and where the batch is summed in
/// one part.
std::size_t dense_weight_gradient_workspace_bytes(HostStream stream,
                                                  DenseWeightGradientArgs const& args);
std::size_t dense_weight_gradient_workspace_bytes(CudaStream stream,
                                                  DenseWeightGradientArgs const& args);
void dense_weight_gradient(HostStream stream, DenseWeightGradientArgs const& args);
void dense_weight_gradient(CudaStream stream, DenseWeightGradientArgs const& args);

}  // namespace msstream::ops::kernels
