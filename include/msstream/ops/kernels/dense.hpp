// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops {

enum class Activation : std::uint8_t { none, relu };

namespace kernels {

/// output = activation(input · weight + bias). All row-major float32.
struct DenseArgs {
  float const* input;   ///< [batch, inputs]
  float const* weight;  ///< [inputs, outputs]
  float const* bias;    ///< [outputs], or null
  float* output;        ///< [batch, outputs]
  std::int64_t batch;
  std::int64_t inputs;
  std::int64_t outputs;
  Activation activation;
};
void dense(HostStream stream, DenseArgs const& args);
void dense(CudaStream stream, DenseArgs const& args);

/// masked = output_gradient where output > 0, else 0; may be in place.
struct ReluGradientArgs {
  float const* output;
  float const* output_gradient;
  float* masked;
  std::int64_t count;
};
void relu_gradient(HostStream stream, ReluGradientArgs const& args);
void relu_gradient(CudaStream stream, ReluGradientArgs const& args);

/// input_gradient = output_gradient · weightᵀ.
struct DenseInputGradientArgs {
  float const* output_gradient;  ///< [batch, outputs], before the activation
  float const* weight;           ///< [inputs, outputs]
  float* input_gradient;         ///< [batch, inputs]
  std::int64_t batch;
  std::int64_t inputs;
  std::int64_t outputs;
};
void dense_input_gradient(HostStream stream, DenseInputGradientArgs const& args);
void dense_input_gradient(CudaStream stream, DenseInputGradientArgs const& args);

/// weight_gradient = inputᵀ · output_gradient; bias_gradient = column sums of output_gradient; both
/// are 0 for an empty batch.
struct DenseWeightGradientArgs {
  float const* input;            ///< [batch, inputs]
  float const* output_gradient;  ///< [batch, outputs], before the activation
  float* weight_gradient;        ///< [inputs, outputs]
  float* bias_gradient;          ///< [outputs], or null
  std::int64_t batch;
  std::int64_t inputs;
  std::int64_t outputs;
};
void dense_weight_gradient(HostStream stream, DenseWeightGradientArgs const& args);
void dense_weight_gradient(CudaStream stream, DenseWeightGradientArgs const& args);

/// product = left · right, row-major float32: [rows, inner] · [inner, columns].
struct MatmulArgs {
  float const* left;
  float const* right;
  float* product;
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t columns;
};
void matmul(HostStream stream, MatmulArgs const& args);
void matmul(CudaStream stream, MatmulArgs const& args);

}  // namespace kernels
}  // namespace msstream::ops
