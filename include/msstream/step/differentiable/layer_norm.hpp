// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/layer_norm.hpp>
#include <msstream/step/gradient_tape.hpp>

namespace msstream::ops {

/// layer_norm with its backward recorded; the output alone.
template <Runtime R>
[[nodiscard]] Tensor<float, R> layer_norm(GradientTape<R>& tape,
                                          Tensor<float, R> const& input,
                                          Tensor<float, R> const& gain,
                                          Tensor<float, R> const& shift,
                                          float epsilon = 1e-5F) {
  auto const result = layer_norm(input, gain, shift, epsilon);
  tape.record(
      "layer_norm",
      result.output,
      [input, gain, shift, result](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        WantedOfLayerNorm const wanted{
            .input = playing.wants_gradient(input),
            .parameters = playing.wants_gradient(gain) || playing.wants_gradient(shift)};
        auto const gradients = layer_norm_gradient(input, gain, result, gradient, wanted);
        if (gradients.input) {
          playing.add_gradient(input, *gradients.input);
        }
        if (gradients.gain) {
          playing.add_gradient(gain, *gradients.gain);
          playing.add_gradient(shift, *gradients.shift);
        }
      });
  return result.output;
}

}  // namespace msstream::ops
