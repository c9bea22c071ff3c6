// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/unary.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

/// The operations of ops/unary.hpp with a tape as first argument. The results are the same; the
/// tape records the backward.
namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> square(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  auto const output = square(input, issued_at);
  return detail::recorded(
      tape,
      "square",
      input,
      output,
      [input, issued_at](Tensor<float, R> const& gradient) {
        return square_gradient(input, gradient, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  auto const output = sqrt(input, issued_at);
  return detail::recorded(
      tape,
      "sqrt",
      input,
      output,
      [output, issued_at](Tensor<float, R> const& gradient) {
        return sqrt_gradient(output, gradient, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> abs(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  auto const output = abs(input, issued_at);
  return detail::recorded(
      tape,
      "abs",
      input,
      output,
      [input, issued_at](Tensor<float, R> const& gradient) {
        return abs_gradient(input, gradient, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> relu(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  auto const output = relu(input, issued_at);
  return detail::recorded(
      tape,
      "relu",
      input,
      output,
      [output, issued_at](Tensor<float, R> const& gradient) {
        return relu_gradient(output, gradient, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> exp(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  auto const output = exp(input, issued_at);
  return detail::recorded(
      tape,
      "exp",
      input,
      output,
      [output, issued_at](Tensor<float, R> const& gradient) {
        return exp_gradient(output, gradient, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> log(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  auto const output = log(input, issued_at);
  return detail::recorded(
      tape,
      "log",
      input,
      output,
      [input, issued_at](Tensor<float, R> const& gradient) {
        return log_gradient(input, gradient, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt_abs(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    float epsilon,
    std::source_location issued_at = std::source_location::current()) {
  auto const output = sqrt_abs(input, epsilon, issued_at);
  return detail::recorded(
      tape,
      "sqrt_abs",
      input,
      output,
      [input, epsilon, issued_at](Tensor<float, R> const& gradient) {
        return sqrt_abs_gradient(input, epsilon, gradient, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops
