// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>
#include <utility>

/// Helpers with which a tape records operations of one or two tensors.
namespace msstream::ops::detail {

/// Records that `output` is a function of `input`, and returns `output`. In the backward,
/// gradient_of(output_gradient) returns the gradient of `input`.
template <class GradientOf>
[[nodiscard]] Floats recorded(AnyTape& tape,
                              char const* operation,
                              Floats const& input,
                              Floats output,
                              GradientOf gradient_of,
                              std::source_location issued_at) {
  tape.record(
      operation,
      output,
      [input, gradient_of = std::move(gradient_of), issued_at](AnyTape& playing,
                                                               Floats const& gradient) {
        if (playing.wants_gradient(input.any())) {
          playing.add_gradient(input, gradient_of(gradient), issued_at);
        }
      },
      issued_at);
  return output;
}

/// Computes the gradient of an operation's input from `saved`, which is the operation's input or
/// its output, and the gradient of the output.
using GradientOfSaved = Floats (*)(Floats const& saved,
                                   Floats const& output_gradient,
                                   std::source_location issued_at);

/// Like recorded() of one tensor, for an operation whose gradient is computed from its input or its
/// output.
[[nodiscard]] inline Floats recorded_with(AnyTape& tape,
                                          char const* operation,
                                          Floats const& input,
                                          Floats output,
                                          Floats const& saved,
                                          GradientOfSaved gradient_of,
                                          std::source_location issued_at) {
  return recorded(
      tape,
      operation,
      input,
      std::move(output),
      [saved, gradient_of, issued_at](Floats const& gradient) {
        return gradient_of(saved, gradient, issued_at);
      },
      issued_at);
}

/// Records that `output` is a function of `left` and `right`, and returns `output`. In the
/// backward, gradients_of(output_gradient, wanted) returns the wanted gradients of the operands.
template <class GradientsOf>
[[nodiscard]] Floats recorded(AnyTape& tape,
                              char const* operation,
                              Floats const& left,
                              Floats const& right,
                              Floats output,
                              GradientsOf gradients_of,
                              std::source_location issued_at) {
  tape.record(
      operation,
      output,
      [left, right, gradients_of = std::move(gradients_of), issued_at](AnyTape& playing,
                                                                       Floats const& gradient) {
        OperandGradients<AnyRuntime> const gradients =
            gradients_of(gradient,
                         WantedOperands{playing.wants_gradient(left.any()),
                                        playing.wants_gradient(right.any())});
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
