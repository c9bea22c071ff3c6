// SPDX-License-Identifier: Apache-2.0
#include "step/recorded.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/step/differentiable/elementwise.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

Floats square(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  auto const output = square(input, issued_at);
  return recorded_with(tape, "square", input, output, input, square_gradient, issued_at);
}

Floats sqrt(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  auto const output = sqrt(input, issued_at);
  return recorded_with(tape, "sqrt", input, output, output, sqrt_gradient, issued_at);
}

Floats abs(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  auto const output = abs(input, issued_at);
  return recorded_with(tape, "abs", input, output, input, abs_gradient, issued_at);
}

Floats relu(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  auto const output = relu(input, issued_at);
  return recorded_with(tape, "relu", input, output, output, relu_gradient, issued_at);
}

Floats exp(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  auto const output = exp(input, issued_at);
  return recorded_with(tape, "exp", input, output, output, exp_gradient, issued_at);
}

Floats log(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  auto const output = log(input, issued_at);
  return recorded_with(tape, "log", input, output, input, log_gradient, issued_at);
}

Floats sqrt_abs(AnyTape& tape, Floats const& input, float epsilon, std::source_location issued_at) {
  auto const output = sqrt_abs(input, epsilon, issued_at);
  return recorded(
      tape,
      "sqrt_abs",
      input,
      output,
      [input, epsilon, issued_at](Floats const& gradient) {
        return sqrt_abs_gradient(input, epsilon, gradient, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops::detail
