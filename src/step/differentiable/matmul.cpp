// SPDX-License-Identifier: Apache-2.0
#include <msstream/ops/matrix.hpp>
#include <msstream/step/differentiable/matrix.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

AnyTensor matmul(AnyTape* tape,
                 AnyTensor const& left,
                 AnyTensor const& right,
                 MatmulOptions const& options,
                 std::source_location issued_at) {
  auto product = matmul(left, right, options, left.dtype(), issued_at);
  if (tape == nullptr) {
    return product;
  }
  tape->note_input(left);
  tape->note_input(right);
  tape->record_any(
      "matmul",
      product,
      [left, right, options, issued_at](AnyTape& playing, AnyTensor const& gradient) {
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

}  // namespace msstream::ops::detail
