// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/unary.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cmath>
#include <source_location>

/// Functions of each element of a float32 tensor of any shape. Each function and each gradient is
/// one launch. Asynchronous; capture-safe; deterministic.
namespace msstream::ops {

namespace detail {

template <Runtime R>
[[nodiscard]] Tensor<float, R> unary(char const* operation,
                                     kernels::UnaryFunction function,
                                     Tensor<float, R> const& input,
                                     std::source_location issued_at,
                                     float epsilon = 0.0F) {
  Tensor<float, R> output(input.device(), input.shape());
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

template <Runtime R>
[[nodiscard]] Tensor<float, R> unary_gradient(char const* operation,
                                              kernels::UnaryFunction function,
                                              Tensor<float, R> const& saved,
                                              Tensor<float, R> const& output_gradient,
                                              std::source_location issued_at,
                                              float epsilon = 0.0F) {
  require(saved.shape() == output_gradient.shape(),
          operation,
          ": ",
          saved.shape(),
          " and ",
          output_gradient.shape());
  Tensor<float, R> gradient(saved.device(), saved.shape());
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

}  // namespace detail

/// Returns input * input.
template <Runtime R>
[[nodiscard]] Tensor<float, R> square(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary("square", kernels::UnaryFunction::square, input, issued_at);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> square_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary_gradient(
      "square_gradient", kernels::UnaryFunction::square, input, output_gradient, issued_at);
}

/// Returns the square root; NaN for a negative element.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary("sqrt", kernels::UnaryFunction::sqrt, input, issued_at);
}
/// Returns the gradient of sqrt(), from its output and the output's gradient. An element is
/// infinite or NaN where the output is 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary_gradient(
      "sqrt_gradient", kernels::UnaryFunction::sqrt, output, output_gradient, issued_at);
}

/// Returns |input|, whose derivative at 0 is taken as 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> abs(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary("abs", kernels::UnaryFunction::abs, input, issued_at);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> abs_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary_gradient(
      "abs_gradient", kernels::UnaryFunction::abs, input, output_gradient, issued_at);
}

/// Returns sqrt(|input| + epsilon), whose derivative at 0 is taken as 0. Throws
/// std::invalid_argument unless epsilon is finite and not negative.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt_abs(
    Tensor<float, R> const& input,
    float epsilon,
    std::source_location issued_at = std::source_location::current()) {
  require(std::isfinite(epsilon) && epsilon >= 0.0F, "sqrt_abs: epsilon ", epsilon);
  return detail::unary("sqrt_abs", kernels::UnaryFunction::sqrt_abs, input, issued_at, epsilon);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt_abs_gradient(
    Tensor<float, R> const& input,
    float epsilon,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary_gradient("sqrt_abs_gradient",
                                kernels::UnaryFunction::sqrt_abs,
                                input,
                                output_gradient,
                                issued_at,
                                epsilon);
}

/// Returns max(input, 0); NaN stays NaN. The derivative at 0 is taken as 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> relu(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary("relu", kernels::UnaryFunction::relu, input, issued_at);
}
/// Returns the gradient of relu(), from its output and the output's gradient.
template <Runtime R>
[[nodiscard]] Tensor<float, R> relu_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary_gradient(
      "relu_gradient", kernels::UnaryFunction::relu, output, output_gradient, issued_at);
}

/// Returns e to the power of input.
template <Runtime R>
[[nodiscard]] Tensor<float, R> exp(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary("exp", kernels::UnaryFunction::exp, input, issued_at);
}
/// Returns the gradient of exp(), from its output and the output's gradient.
template <Runtime R>
[[nodiscard]] Tensor<float, R> exp_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary_gradient(
      "exp_gradient", kernels::UnaryFunction::exp, output, output_gradient, issued_at);
}

/// Returns the natural logarithm; -infinity for 0, and NaN for a negative element.
template <Runtime R>
[[nodiscard]] Tensor<float, R> log(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary("log", kernels::UnaryFunction::log, input, issued_at);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> log_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::unary_gradient(
      "log_gradient", kernels::UnaryFunction::log, input, output_gradient, issued_at);
}

}  // namespace msstream::ops
