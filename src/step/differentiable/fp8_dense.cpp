// SPDX-License-Identifier: Apache-2.0
#include "ops/dense/fp8_dense.hpp"

#include <msstream/ops/cast.hpp>
#include <msstream/step/differentiable/mixed.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {

AnyTensor dense_fp8(AnyTape* tape,
                    AnyTensor const& input,
                    Floats const& weight,
                    Floats const& bias,
                    Activation activation,
                    std::source_location issued_at) {
  if (!has_fp8_products(weight.shape())) {
    return dense(tape, input, weight, bias, activation, issued_at);
  }
  auto const own_bias = cast(bias.any(), input.dtype(), issued_at);
  auto made =
      dense_fp8_for_gradient(input, weight.any(), own_bias, activation, tape != nullptr, issued_at);
  if (tape != nullptr) {
    tape->note_input(input);
    tape->note_inputs(weight, bias);
    tape->record_any(
        "dense_fp8",
        made.output,
        [input, weight, bias, operands = *std::move(made.operands), activation, issued_at](
            AnyTape& playing, AnyTensor const& gradient) {
          auto gradients = dense_fp8_gradient(
              operands, activation, gradient, playing.wants_gradient(input), issued_at);
          if (gradients.input) {
            playing.add_gradient(input, *std::move(gradients.input), issued_at);
          }
          playing.add_gradient(weight, gradients.weight, issued_at);
          playing.add_gradient(bias, gradients.bias, issued_at);
        },
        issued_at);
  }
  return std::move(made.output);
}

}  // namespace msstream::ops::detail
