// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

/// The operations of ops/arithmetic.hpp with a tape as first argument. The results are the same;
/// the tape records the backward.
namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> add(
    GradientTape<R>& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded(
      tape,
      "add",
      left,
      right,
      add(left, right, issued_at),
      [left, right, issued_at](auto const& gradient, auto wanted) {
        return add_gradient(left.shape(), right.shape(), gradient, wanted, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> subtract(
    GradientTape<R>& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded(
      tape,
      "subtract",
      left,
      right,
      subtract(left, right, issued_at),
      [left, right, issued_at](auto const& gradient, auto wanted) {
        return subtract_gradient(left.shape(), right.shape(), gradient, wanted, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> multiply(
    GradientTape<R>& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded(
      tape,
      "multiply",
      left,
      right,
      multiply(left, right, issued_at),
      [left, right, issued_at](auto const& gradient, auto wanted) {
        return multiply_gradient(left, right, gradient, wanted, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> divide(
    GradientTape<R>& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  auto const output = divide(left, right, issued_at);
  return detail::recorded(
      tape,
      "divide",
      left,
      right,
      output,
      [left, right, output, issued_at](auto const& gradient, auto wanted) {
        return divide_gradient(left.shape(), right, output, gradient, wanted, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops
