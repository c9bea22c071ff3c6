// SPDX-License-Identifier: Apache-2.0
#include "step/recorded.hpp"

#include <msstream/ops/arithmetic.hpp>
#include <msstream/step/differentiable/elementwise.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

Floats add(AnyTape& tape, Floats const& left, Floats const& right, std::source_location issued_at) {
  return recorded(
      tape,
      "add",
      left,
      right,
      add(left, right, issued_at),
      [left, right, issued_at](auto const& gradient, auto wanted) {
        return add_gradient(left.shape(), right.shape(), gradient, wanted, issued_at);
      },
      issued_at);
}

Floats subtract(AnyTape& tape,
                Floats const& left,
                Floats const& right,
                std::source_location issued_at) {
  return recorded(
      tape,
      "subtract",
      left,
      right,
      subtract(left, right, issued_at),
      [left, right, issued_at](auto const& gradient, auto wanted) {
        return subtract_gradient(left.shape(), right.shape(), gradient, wanted, issued_at);
      },
      issued_at);
}

Floats multiply(AnyTape& tape,
                Floats const& left,
                Floats const& right,
                std::source_location issued_at) {
  return recorded(
      tape,
      "multiply",
      left,
      right,
      multiply(left, right, issued_at),
      [left, right, issued_at](auto const& gradient, auto wanted) {
        return multiply_gradient(left, right, gradient, wanted, issued_at);
      },
      issued_at);
}

Floats divide(AnyTape& tape,
              Floats const& left,
              Floats const& right,
              std::source_location issued_at) {
  auto const output = divide(left, right, issued_at);
  return recorded(
      tape,
      "divide",
      left,
      right,
      output,
      [left, right, output, issued_at](auto const& gradient, auto wanted) {
        return divide_gradient(left.shape(), right, output, gradient, wanted, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops::detail
