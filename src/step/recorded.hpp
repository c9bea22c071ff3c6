// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>
#include <utility>

/// Functions with which operations of one or two tensors are recorded on a GradientTape.
namespace msstream::ops::detail {

/// Records on the tape that `output` was computed from `input`, and returns `output`. In the
/// backward pass, gradient_of(output_gradient) must return the gradient of `input`.
template <class GradientOf>
[[nodiscard]] Floats recorded(AnyTape& tape,
                              char const* operation,
                              Floats const& input,
                              Floats output,
                              GradientOf gradient_of,
                              std::source_location issued_at) {
  tape.note_inputs(input);
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

/// Records on the tape that `output` was computed from `input`, of any type, and returns `output`.
/// In the backward pass, gradient_of(output_gradient) must return the gradient of `input`, in its
/// type.
template <class GradientOf>
[[nodiscard]] Floats recorded(AnyTape& tape,
                              char const* operation,
                              AnyTensor const& input,
                              Floats output,
                              GradientOf gradient_of,
                              std::source_location issued_at) {
  tape.note_input(input);
  tape.record(
      operation,
      output,
      [input, gradient_of = std::move(gradient_of), issued_at](AnyTape& playing,
                                                               Floats const& gradient) {
        if (playing.wants_gradient(input)) {
          playing.add_gradient(input, gradient_of(gradient), issued_at);
        }
      },
      issued_at);
  return output;
}

/// Computes the gradient of an operation's input. `saved` is the input or the output of the
/// operation, whichever the gradient formula uses.
using GradientOfSaved = Floats (*)(Floats const& saved,
                                   Floats const& output_gradient,
                                   std::source_location issued_at);

/// Records on the tape that `output` was computed from `input`, and returns `output`. The gradient
/// is computed by a GradientOfSaved from the input or the output, which the tape keeps.
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

/// Records on the tape that `output` was computed from `left` and `right`, and returns `output`. In
/// the backward pass, gradients_of(output_gradient, wanted) must return those gradients of the
/// operands that `wanted` selects.
template <class GradientsOf>
[[nodiscard]] Floats recorded(AnyTape& tape,
                              char const* operation,
                              Floats const& left,
                              Floats const& right,
                              Floats output,
                              GradientsOf gradients_of,
                              std::source_location issued_at) {
  tape.note_inputs(left, right);
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
