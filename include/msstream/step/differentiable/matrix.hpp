// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/matrix.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

/// ops/matrix.hpp with a tape as first argument: the same results, and the backward recorded.
namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> transpose(GradientTape<R>& tape, Tensor<float, R> const& input) {
  return detail::recorded(tape, "transpose", input, transpose(input), [](auto const& gradient) {
    return transpose(gradient);
  });
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> add_identity(GradientTape<R>& tape,
                                            Tensor<float, R> const& input,
                                            float factor = 1.0F) {
  return detail::recorded(
      tape, "add_identity", input, add_identity(input, factor), [](auto const& gradient) {
        return gradient;
      });
}

}  // namespace msstream::ops
