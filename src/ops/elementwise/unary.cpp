// SPDX-License-Identifier: Apache-2.0
#include "elementwise/unary.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cmath>
#include <source_location>

namespace msstream::ops::detail {
namespace {

[[nodiscard]] Floats unary(char const* operation,
                           kernels::UnaryFunction function,
                           Floats const& input,
                           std::source_location issued_at,
                           float epsilon = 0.0F) {
  Floats output(input.device(), input.shape());
  kernels::UnaryArgs const args{function, epsilon, input.data(), output.data(), input.count()};
  issue(
      operation,
      reads(input),
      writes(output),
      [args](auto stream) { kernels::unary(stream, args); },
      {},
      issued_at);
  return output;
}

[[nodiscard]] Floats unary_gradient(char const* operation,
                                    kernels::UnaryFunction function,
                                    Floats const& saved,
                                    Floats const& output_gradient,
                                    std::source_location issued_at,
                                    float epsilon = 0.0F) {
  require(saved.shape() == output_gradient.shape(),
          "{}: {} and {}",
          operation,
          saved.shape(),
          output_gradient.shape());
  Floats gradient(saved.device(), saved.shape());
  kernels::UnaryGradientArgs const args{
      function, epsilon, saved.data(), output_gradient.data(), gradient.data(), saved.count()};
  issue(
      operation,
      reads(saved, output_gradient),
      writes(gradient),
      [args](auto stream) { kernels::unary_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
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

}  // namespace msstream::ops::detail
