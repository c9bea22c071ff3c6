// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/layer_norm.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

namespace msstream::ops {

/// Like ops::layer_norm(), but the tape records the backward. Returns only the output.
template <Runtime R>
[[nodiscard]] Tensor<float, R> layer_norm(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    Tensor<float, R> const& gain,
    Tensor<float, R> const& shift,
    float epsilon = 1e-5F,
    std::source_location issued_at = std::source_location::current()) {
  auto const result = layer_norm(input, gain, shift, epsilon, issued_at);
  tape.record(
      "layer_norm",
      result.output,
      [input, gain, shift, result, issued_at](GradientTape<R>& playing,
                                              Tensor<float, R> const& gradient) {
        WantedOfLayerNorm const wanted{
            .input = playing.wants_gradient(input),
            .parameters = playing.wants_gradient(gain) || playing.wants_gradient(shift)};
        auto const gradients =
            layer_norm_gradient(input, gain, result, gradient, wanted, issued_at);
        if (gradients.input) {
          playing.add_gradient(input, *gradients.input, issued_at);
        }
        if (gradients.gain) {
          playing.add_gradient(gain, *gradients.gain, issued_at);
          playing.add_gradient(shift, *gradients.shift, issued_at);
        }
      },
      issued_at);
  return result.output;
}

}  // namespace msstream::ops
