// SPDX-License-Identifier: Apache-2.0
#include "elementwise/unary.hpp"

#include "ops/elementwise/any_elementwise.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/activation.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cmath>
#include <source_location>

namespace msstream::ops::detail {
AnyTensor unary(char const* operation,
                kernels::UnaryFunction function,
                AnyTensor const& input,
                std::source_location issued_at,
                float parameter,
                float limit) {
  AnyTensor const output(input.device(), input.dtype(), input.shape());
  kernels::UnaryArgs const args{
      function, parameter, input.data(), output.data(), input.count(), limit, input.dtype()};
  issue(
      operation,
      reads(input),
      writes(output),
      [args](auto stream) { kernels::unary(stream, args); },
      {},
      issued_at);
  return output;
}

AnyTensor unary_gradient(char const* operation,
                         kernels::UnaryFunction function,
                         AnyTensor const& saved,
                         AnyTensor const& output_gradient,
                         std::source_location issued_at,
                         float parameter,
                         float limit) {
  require(saved.shape() == output_gradient.shape(),
          "{}: {} and {}",
          operation,
          saved.shape(),
          output_gradient.shape());
  require(saved.dtype() == output_gradient.dtype(),
          "{}: tensors of {} and {}",
          operation,
          name_of(saved.dtype()),
          name_of(output_gradient.dtype()));
  AnyTensor const gradient(saved.device(), saved.dtype(), saved.shape());
  kernels::UnaryGradientArgs const args{function,
                                        parameter,
                                        saved.data(),
                                        output_gradient.data(),
                                        gradient.data(),
                                        saved.count(),
                                        limit,
                                        saved.dtype()};
  issue(
      operation,
      reads(saved, output_gradient),
      writes(gradient),
      [args](auto stream) { kernels::unary_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

namespace {

[[nodiscard]] Floats unary(char const* operation,
                           kernels::UnaryFunction function,
                           Floats const& input,
                           std::source_location issued_at,
                           float parameter = 0.0F,
                           float limit = 0.0F) {
  return {msstream::detail::OfKnownType(),
          detail::unary(operation, function, input.any(), issued_at, parameter, limit)};
}

[[nodiscard]] Floats unary_gradient(char const* operation,
                                    kernels::UnaryFunction function,
                                    Floats const& saved,
                                    Floats const& output_gradient,
                                    std::source_location issued_at,
                                    float parameter = 0.0F,
                                    float limit = 0.0F) {
  return {
      msstream::detail::OfKnownType(),
      detail::unary_gradient(
          operation, function, saved.any(), output_gradient.any(), issued_at, parameter, limit)};
}

}  // namespace

Floats square(Floats const& input, std::source_location issued_at) {
  return unary("square", kernels::UnaryFunction::square, input, issued_at);
}

Floats square_gradient(Floats const& input,
                       Floats const& output_gradient,
                       std::source_location issued_at) {
  return unary_gradient(
      "square_gradient", kernels::UnaryFunction::square, input, output_gradient, issued_at);
}

Floats sqrt(Floats const& input, std::source_location issued_at) {
  return unary("sqrt", kernels::UnaryFunction::sqrt, input, issued_at);
}

Floats sqrt_gradient(Floats const& output,
                     Floats const& output_gradient,
                     std::source_location issued_at) {
  return unary_gradient(
      "sqrt_gradient", kernels::UnaryFunction::sqrt, output, output_gradient, issued_at);
}

Floats abs(Floats const& input, std::source_location issued_at) {
  return unary("abs", kernels::UnaryFunction::abs, input, issued_at);
}

Floats abs_gradient(Floats const& input,
                    Floats const& output_gradient,
                    std::source_location issued_at) {
  return unary_gradient(
      "abs_gradient", kernels::UnaryFunction::abs, input, output_gradient, issued_at);
}

Floats sqrt_abs(Floats const& input, float epsilon, std::source_location issued_at) {
  require(std::isfinite(epsilon) && epsilon >= 0.0F, "sqrt_abs: epsilon {}", epsilon);
  return unary("sqrt_abs", kernels::UnaryFunction::sqrt_abs, input, issued_at, epsilon);
}

Floats sqrt_abs_gradient(Floats const& input,
                         float epsilon,
                         Floats const& output_gradient,
                         std::source_location issued_at) {
  return unary_gradient("sqrt_abs_gradient",
                        kernels::UnaryFunction::sqrt_abs,
                        input,
                        output_gradient,
                        issued_at,
                        epsilon);
}

Floats relu(Floats const& input, std::source_location issued_at) {
  return unary("relu", kernels::UnaryFunction::relu, input, issued_at);
}

Floats relu_gradient(Floats const& output,
                     Floats const& output_gradient,
                     std::source_location issued_at) {
  return unary_gradient(
      "relu_gradient", kernels::UnaryFunction::relu, output, output_gradient, issued_at);
}

Floats exp(Floats const& input, std::source_location issued_at) {
  return unary("exp", kernels::UnaryFunction::exp, input, issued_at);
}

Floats exp_gradient(Floats const& output,
                    Floats const& output_gradient,
                    std::source_location issued_at) {
  return unary_gradient(
      "exp_gradient", kernels::UnaryFunction::exp, output, output_gradient, issued_at);
}

Floats log(Floats const& input, std::source_location issued_at) {
  return unary("log", kernels::UnaryFunction::log, input, issued_at);
}

Floats log_gradient(Floats const& input,
                    Floats const& output_gradient,
                    std::source_location issued_at) {
  return unary_gradient(
      "log_gradient", kernels::UnaryFunction::log, input, output_gradient, issued_at);
}

Floats tanh(Floats const& input, std::source_location issued_at) {
  return unary("tanh", kernels::UnaryFunction::tanh, input, issued_at);
}

Floats tanh_gradient(Floats const& output,
                     Floats const& output_gradient,
                     std::source_location issued_at) {
  return unary_gradient(
      "tanh_gradient", kernels::UnaryFunction::tanh, output, output_gradient, issued_at);
}

Floats gelu(Floats const& input, std::source_location issued_at) {
  return unary("gelu", kernels::UnaryFunction::gelu, input, issued_at);
}

Floats gelu_gradient(Floats const& input,
                     Floats const& output_gradient,
                     std::source_location issued_at) {
  return unary_gradient(
      "gelu_gradient", kernels::UnaryFunction::gelu, input, output_gradient, issued_at);
}

Floats gelu_tanh(Floats const& input, std::source_location issued_at) {
  return unary("gelu_tanh", kernels::UnaryFunction::gelu_tanh, input, issued_at);
}

Floats gelu_tanh_gradient(Floats const& input,
                          Floats const& output_gradient,
                          std::source_location issued_at) {
  return unary_gradient(
      "gelu_tanh_gradient", kernels::UnaryFunction::gelu_tanh, input, output_gradient, issued_at);
}

Floats silu(Floats const& input, std::source_location issued_at) {
  return unary("silu", kernels::UnaryFunction::silu, input, issued_at);
}

Floats silu_gradient(Floats const& input,
                     Floats const& output_gradient,
                     std::source_location issued_at) {
  return unary_gradient(
      "silu_gradient", kernels::UnaryFunction::silu, input, output_gradient, issued_at);
}

Floats clamp(Floats const& input, float low, float high, std::source_location issued_at) {
  require(low <= high, "clamp: low {}, high {}; expected low <= high", low, high);
  return unary("clamp", kernels::UnaryFunction::clamp, input, issued_at, low, high);
}

Floats clamp_gradient(Floats const& input,
                      float low,
                      float high,
                      Floats const& output_gradient,
                      std::source_location issued_at) {
  require(low <= high, "clamp_gradient: low {}, high {}; expected low <= high", low, high);
  return unary_gradient("clamp_gradient",
                        kernels::UnaryFunction::clamp,
                        input,
                        output_gradient,
                        issued_at,
                        low,
                        high);
}

Floats add_scalar(Floats const& input, float term, std::source_location issued_at) {
  return unary("add_scalar", kernels::UnaryFunction::add_scalar, input, issued_at, term);
}

}  // namespace msstream::ops::detail
