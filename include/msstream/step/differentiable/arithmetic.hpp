// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/step/gradient_tape.hpp>

/// ops/arithmetic.hpp with a tape as first argument: the same results, and the backward recorded.
namespace msstream::ops {

namespace detail {

template <Runtime R>
[[nodiscard]] WantedOperands wanted_operands(GradientTape<R> const& tape,
                                             Tensor<float, R> const& left,
                                             Tensor<float, R> const& right) {
  return {tape.wants_gradient(left), tape.wants_gradient(right)};
}
template <Runtime R>
void add_gradients(GradientTape<R>& tape,
                   Tensor<float, R> const& left,
                   Tensor<float, R> const& right,
                   OperandGradients<R> const& gradients) {
  if (gradients.left) {
    tape.add_gradient(left, *gradients.left);
  }
  if (gradients.right) {
    tape.add_gradient(right, *gradients.right);
  }
}

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> add(GradientTape<R>& tape,
                                   Tensor<float, R> const& left,
                                   Tensor<float, R> const& right) {
  auto output = add(left, right);
  tape.record(
      "add", output, [left, right](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        auto const wanted = detail::wanted_operands(playing, left, right);
        detail::add_gradients(
            playing, left, right, add_gradient(left.shape(), right.shape(), gradient, wanted));
      });
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> subtract(GradientTape<R>& tape,
                                        Tensor<float, R> const& left,
                                        Tensor<float, R> const& right) {
  auto output = subtract(left, right);
  tape.record(
      "subtract",
      output,
      [left, right](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        auto const wanted = detail::wanted_operands(playing, left, right);
        detail::add_gradients(
            playing, left, right, subtract_gradient(left.shape(), right.shape(), gradient, wanted));
      });
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> multiply(GradientTape<R>& tape,
                                        Tensor<float, R> const& left,
                                        Tensor<float, R> const& right) {
  auto output = multiply(left, right);
  tape.record("multiply",
              output,
              [left, right](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
                auto const wanted = detail::wanted_operands(playing, left, right);
                detail::add_gradients(
                    playing, left, right, multiply_gradient(left, right, gradient, wanted));
              });
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> divide(GradientTape<R>& tape,
                                      Tensor<float, R> const& left,
                                      Tensor<float, R> const& right) {
  auto output = divide(left, right);
  tape.record(
      "divide",
      output,
      [left, right, output](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        auto const wanted = detail::wanted_operands(playing, left, right);
        detail::add_gradients(
            playing, left, right, divide_gradient(left.shape(), right, output, gradient, wanted));
      });
  return output;
}

}  // namespace msstream::ops
