// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/any_elementwise.hpp"

#include <msstream/ops/arithmetic.hpp>
#include <msstream/step/differentiable/mixed.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {

AnyTensor add_halves(AnyTape* tape,
                     std::vector<AnyTensor> const& terms,
                     std::source_location issued_at) {
  auto total = add(terms, issued_at);
  if (tape == nullptr) {
    return total;
  }
  for (auto const& term : terms) {
    tape->note_input(term);
  }
  tape->record_any(
      "add",
      total,
      [terms, issued_at](AnyTape& playing, AnyTensor const& gradient) {
        for (auto const& term : terms) {
          if (playing.wants_gradient(term)) {
            playing.add_gradient(term, gradient, issued_at);
          }
        }
      },
      issued_at);
  return total;
}

AnyTensor add_halves(AnyTape* tape,
                     AnyTensor const& left,
                     AnyTensor const& right,
                     std::source_location issued_at) {
  auto sum = add(left, right, issued_at);
  if (tape == nullptr) {
    return sum;
  }
  tape->note_input(left);
  tape->note_input(right);
  tape->record_any(
      "add",
      sum,
      [left, right, issued_at](AnyTape& playing, AnyTensor const& gradient) {
        for (auto const& operand : {left, right}) {
          if (playing.wants_gradient(operand)) {
            playing.add_gradient(operand, sum_to(gradient, operand.shape(), issued_at), issued_at);
          }
        }
      },
      issued_at);
  return sum;
}

AnyTensor multiply_halves(AnyTape* tape,
                          AnyTensor const& left,
                          AnyTensor const& right,
                          std::source_location issued_at) {
  auto product = multiply(left, right, issued_at);
  if (tape == nullptr) {
    return product;
  }
  tape->note_input(left);
  tape->note_input(right);
  tape->record_any(
      "multiply",
      product,
      [left, right, issued_at](AnyTape& playing, AnyTensor const& gradient) {
        WantedOperands const wanted{.left = playing.wants_gradient(left),
                                    .right = playing.wants_gradient(right)};
        auto gradients = multiply_gradient(left, right, gradient, wanted, issued_at);
        if (gradients.left) {
          playing.add_gradient(left, *std::move(gradients.left), issued_at);
        }
        if (gradients.right) {
          playing.add_gradient(right, *std::move(gradients.right), issued_at);
        }
      },
      issued_at);
  return product;
}

}  // namespace msstream::ops::detail
