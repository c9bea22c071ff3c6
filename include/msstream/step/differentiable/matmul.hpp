// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/matmul.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> matmul(
    GradientTape<R>& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    MatmulOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto product = matmul(left, right, options, issued_at);
  tape.record(
      "matmul",
      product,
      [left, right, options, issued_at](GradientTape<R>& playing,
                                        Tensor<float, R> const& gradient) {
        if (playing.wants_gradient(left)) {
          playing.add_gradient(
              left, matmul_left_gradient(left, right, options, gradient, issued_at), issued_at);
        }
        if (playing.wants_gradient(right)) {
          playing.add_gradient(
              right, matmul_right_gradient(left, right, options, gradient, issued_at), issued_at);
        }
      },
      issued_at);
  return product;
}

}  // namespace msstream::ops
