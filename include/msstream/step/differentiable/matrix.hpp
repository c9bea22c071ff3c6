// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/matrix.hpp>
#include <msstream/step/gradient_tape.hpp>

/// ops/matrix.hpp with a tape as first argument: the same results, and the backward recorded.
namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> transpose(GradientTape<R>& tape, Tensor<float, R> const& input) {
  auto output = transpose(input);
  tape.record(
      "transpose", output, [input](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        if (playing.wants_gradient(input)) {
          playing.add_gradient(input, transpose(gradient));
        }
      });
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> add_identity(GradientTape<R>& tape,
                                            Tensor<float, R> const& input,
                                            float factor = 1.0F) {
  auto output = add_identity(input, factor);
  tape.record(
      "add_identity", output, [input](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        playing.add_gradient(input, gradient);
      });
  return output;
}

}  // namespace msstream::ops
