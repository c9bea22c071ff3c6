// SPDX-License-Identifier: Apache-2.0
#include <msstream/ops/matrix.hpp>
#include <msstream/step/differentiable/matrix.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

Floats matmul(AnyTape& tape,
              Floats const& left,
              Floats const& right,
              MatmulOptions const& options,
              std::source_location issued_at) {
  auto product = matmul(left, right, options, issued_at);
  tape.note_inputs(left, right);
  tape.record(
      "matmul",
      product,
      [left, right, options, issued_at](AnyTape& playing, Floats const& gradient) {
        if (playing.wants_gradient(left.any())) {
          playing.add_gradient(
              left, matmul_left_gradient(left, right, options, gradient, issued_at), issued_at);
        }
        if (playing.wants_gradient(right.any())) {
          playing.add_gradient(
              right, matmul_right_gradient(left, right, options, gradient, issued_at), issued_at);
        }
      },
      issued_at);
  return product;
}

}  // namespace msstream::ops::detail
