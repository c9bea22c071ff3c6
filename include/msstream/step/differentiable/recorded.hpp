// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>
#include <utility>

/// Helpers with which a tape records operations of one or two tensors.
namespace msstream::ops::detail {

/// Records that `output` is a function of `input`, and returns `output`. In the backward,
/// gradient_of(output_gradient) returns the gradient of `input`.
template <Runtime R, class GradientOf>
[[nodiscard]] Tensor<float, R> recorded(GradientTape<R>& tape,
                                        char const* operation,
                                        Tensor<float, R> const& input,
                                        Tensor<float, R> output,
                                        GradientOf gradient_of,
                                        std::source_location issued_at) {
  tape.record(
      operation,
      output,
      [input, gradient_of = std::move(gradient_of), issued_at](GradientTape<R>& playing,
                                                               Tensor<float, R> const& gradient) {
        if (playing.wants_gradient(input)) {
          playing.add_gradient(input, gradient_of(gradient), issued_at);
        }
      },
      issued_at);
  return output;
}

/// Records that `output` is a function of `left` and `right`, and returns `output`. In the
/// backward, gradients_of(output_gradient, wanted) returns the wanted gradients of the operands.
template <Runtime R, class GradientsOf>
[[nodiscard]] Tensor<float, R> recorded(GradientTape<R>& tape,
                                        char const* operation,
                                        Tensor<float, R> const& left,
                                        Tensor<float, R> const& right,
                                        Tensor<float, R> output,
                                        GradientsOf gradients_of,
                                        std::source_location issued_at) {
  tape.record(
      operation,
      output,
      [left, right, gradients_of = std::move(gradients_of), issued_at](
          GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        OperandGradients<R> const gradients = gradients_of(
            gradient, WantedOperands{playing.wants_gradient(left), playing.wants_gradient(right)});
        if (gradients.left) {
          playing.add_gradient(left, *gradients.left, issued_at);
        }
        if (gradients.right) {
          playing.add_gradient(right, *gradients.right, issued_at);
        }
      },
      issued_at);
  return output;
}

}  // namespace msstream::ops::detail
