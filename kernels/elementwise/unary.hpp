// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The functions of one element x that unary() computes.
enum class UnaryFunction : std::uint8_t {
  square,
  sqrt,
  abs,
  sqrt_abs,  ///< sqrt(|x| + epsilon)
  relu,      ///< max(x, 0); NaN stays NaN
  exp,
  log,
  tanh,
  gelu,       ///< x Φ(x), for the standard normal distribution Φ
  gelu_tanh,  ///< the approximation of gelu by a hyperbolic tangent
  silu,       ///< x / (1 + exp(-x))
  sigmoid,    ///< 1 / (1 + exp(-x)), without overflow
  clamp,      ///< min(max(x, low), high); NaN stays NaN
  add_scalar,
};

/// Returns whether the gradient of a function is computed from the function's output instead of its
/// input.
constexpr bool gradient_reads_output(UnaryFunction function) {
  return function == UnaryFunction::sqrt || function == UnaryFunction::relu ||
         function == UnaryFunction::exp || function == UnaryFunction::tanh ||
         function == UnaryFunction::sigmoid;
}

/// Computes output[i] = function(input[i]) in float32, for arrays of one type. The output may be
/// the input.
struct UnaryArgs {
  UnaryFunction function;
  float parameter;  ///< the epsilon of sqrt_abs, the low bound of clamp, the term of add_scalar
  void const* input;
  void* output;
  std::int64_t count;
  float limit = 0.0F;            ///< the high bound of clamp
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
};
void unary(HostStream stream, UnaryArgs const& args);
void unary(CudaStream stream, UnaryArgs const& args);

/// Computes the gradient of unary(): input_gradient[i] = output_gradient[i] * function'(saved[i]).
/// The result may overwrite an input. The derivatives of abs, sqrt_abs and relu at 0 are taken as
/// 0, and that of clamp at its bounds as 1.
struct UnaryGradientArgs {
  UnaryFunction function;
  float parameter;    ///< the epsilon of sqrt_abs, the low bound of clamp
  void const* saved;  ///< the output if gradient_reads_output(function), otherwise the input
  void const* output_gradient;
  void* input_gradient;
  std::int64_t count;
  float limit = 0.0F;            ///< the high bound of clamp
  DType dtype = DType::float32;  ///< of all arrays: float32, float16 or bfloat16
};
void unary_gradient(HostStream stream, UnaryGradientArgs const& args);
void unary_gradient(CudaStream stream, UnaryGradientArgs const& args);

}  // namespace msstream::ops::kernels
