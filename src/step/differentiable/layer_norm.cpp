// SPDX-License-Identifier: Apache-2.0
#include <msstream/ops/layer_norm.hpp>
#include <msstream/step/differentiable/layers.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>
#include <utility>

namespace msstream::ops::detail {

AnyTensor layer_norm(AnyTape* tape,
                     AnyTensor const& input,
                     Floats const& weight,
                     Floats const& bias,
                     float epsilon,
                     std::source_location issued_at) {
  auto const result = layer_norm(input, weight, bias, epsilon, issued_at);
  if (tape == nullptr) {
    return result.output;
  }
  tape->note_input(input);
  tape->note_inputs(weight, bias);
  tape->record_any(
      "layer_norm",
      result.output,
      [input, weight, bias, result, issued_at](AnyTape& playing, AnyTensor const& gradient) {
        WantedOfLayerNorm const wanted{.input = playing.wants_gradient(input),
                                       .parameters = playing.wants_gradient(weight.any()) ||
                                                     playing.wants_gradient(bias.any())};
        auto gradients = layer_norm_gradient(input, weight, result, gradient, wanted, issued_at);
        if (gradients.input) {
          playing.add_gradient(input, *std::move(gradients.input), issued_at);
        }
        if (gradients.weight) {
          playing.add_gradient(weight, *gradients.weight, issued_at);
          playing.add_gradient(bias, *gradients.bias, issued_at);
        }
      },
      issued_at);
  return result.output;
}

}  // namespace msstream::ops::detail
