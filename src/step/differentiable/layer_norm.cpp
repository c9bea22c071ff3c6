// SPDX-License-Identifier: Apache-2.0
#include <msstream/ops/layer_norm.hpp>
#include <msstream/step/differentiable/layers.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

Floats layer_norm(AnyTape& tape,
                  Floats const& input,
                  Floats const& weight,
                  Floats const& bias,
                  float epsilon,
                  std::source_location issued_at) {
  auto const result = layer_norm(input, weight, bias, epsilon, issued_at);
  tape.note_inputs(input, weight, bias);
  tape.record(
      "layer_norm",
      result.output,
      [input, weight, bias, result, issued_at](AnyTape& playing, Floats const& gradient) {
        WantedOfLayerNorm const wanted{.input = playing.wants_gradient(input.any()),
                                       .parameters = playing.wants_gradient(weight.any()) ||
                                                     playing.wants_gradient(bias.any())};
        auto const gradients =
            layer_norm_gradient(input, weight, result, gradient, wanted, issued_at);
        if (gradients.input) {
          playing.add_gradient(input, *gradients.input, issued_at);
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
