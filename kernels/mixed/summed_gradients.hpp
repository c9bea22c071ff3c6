// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

/// Elementwise gradients of matrices [rows, columns] whose column sums are the gradient of a bias:
/// one pass over the matrices computes both. Elements are float32, float16 or bfloat16, sums are
/// float32. On CUDA the order of the additions depends only on the sizes, on the size of the
/// stream's workspace, and on whether all matrices are aligned to 16 bytes. All arrays are
/// row-major. Capture-safe.
namespace msstream::ops::kernels {

/// Computes input_gradient = output_gradient * activation'(input), and its column sums.
struct ActivationSumsArgs {
  Activation activation;
  void const* saved;  ///< the output for relu, the input for gelu_tanh, null for none
  void const* output_gradient;
  void* input_gradient;  ///< null: only the sums are wanted; may be output_gradient
  float* sums;           ///< [columns], of input_gradient before it is rounded
  std::int64_t rows;
  std::int64_t columns;
  DType dtype;
};
void activation_gradient_sums(HostStream stream, ActivationSumsArgs const& args);
void activation_gradient_sums(CudaStream stream, ActivationSumsArgs const& args);

/// Computes the gradients of cross() for a gradient g of its output: projected_gradient = g * first
/// with its column sums, and first_gradient = g * projected.
struct CrossSumsArgs {
  void const* first;
  void const* projected;  ///< null without first_gradient
  void const* output_gradient;
  void* first_gradient;  ///< null: it is not wanted
  void* projected_gradient;
  float* sums;  ///< [columns], of projected_gradient before it is rounded
  std::int64_t rows;
  std::int64_t columns;
  DType dtype;
};
void cross_gradient_sums(HostStream stream, CrossSumsArgs const& args);
void cross_gradient_sums(CudaStream stream, CrossSumsArgs const& args);

}  // namespace msstream::ops::kernels
