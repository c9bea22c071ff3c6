// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

/// ops/arithmetic.hpp with a tape as first argument: the same results, and the backward recorded.
namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> add(GradientTape<R>& tape,
                                   Tensor<float, R> const& left,
                                   Tensor<float, R> const& right) {
  return detail::recorded(
      tape, "add", left, right, add(left, right), [left, right](auto const& gradient, auto wanted) {
        return add_gradient(left.shape(), right.shape(), gradient, wanted);
      });
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> subtract(GradientTape<R>& tape,
                                        Tensor<float, R> const& left,
                                        Tensor<float, R> const& right) {
  return detail::recorded(tape,
                          "subtract",
                          left,
                          right,
                          subtract(left, right),
                          [left, right](auto const& gradient, auto wanted) {
                            return subtract_gradient(left.shape(), right.shape(), gradient, wanted);
                          });
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> multiply(GradientTape<R>& tape,
                                        Tensor<float, R> const& left,
                                        Tensor<float, R> const& right) {
  return detail::recorded(tape,
                          "multiply",
                          left,
                          right,
                          multiply(left, right),
                          [left, right](auto const& gradient, auto wanted) {
                            return multiply_gradient(left, right, gradient, wanted);
                          });
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> divide(GradientTape<R>& tape,
                                      Tensor<float, R> const& left,
                                      Tensor<float, R> const& right) {
  auto const output = divide(left, right);
  return detail::recorded(tape,
                          "divide",
                          left,
                          right,
                          output,
                          [left, right, output](auto const& gradient, auto wanted) {
                            return divide_gradient(left.shape(), right, output, gradient, wanted);
                          });
}

}  // namespace msstream::ops
