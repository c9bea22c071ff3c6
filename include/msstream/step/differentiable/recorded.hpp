// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>
#include <utility>

/// What operations of one or two tensors have in common when a tape records them.
namespace msstream::ops::detail {

/// Records that `output` is a function of `input`; gradient_of(output_gradient) gives the input's.
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

/// The same of a function of two operands; gradients_of(output_gradient, which are wanted) gives
/// theirs.
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
