// SPDX-License-Identifier: Apache-2.0
#include "step/recorded.hpp"

#include <msstream/ops/activation.hpp>
#include <msstream/step/differentiable/activation.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

Floats tanh(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  auto const output = tanh(input, issued_at);
  return recorded_with(tape, "tanh", input, output, output, tanh_gradient, issued_at);
}

Floats gelu(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  return recorded_with(
      tape, "gelu", input, gelu(input, issued_at), input, gelu_gradient, issued_at);
}

Floats gelu_tanh(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  return recorded_with(
      tape, "gelu_tanh", input, gelu_tanh(input, issued_at), input, gelu_tanh_gradient, issued_at);
}

Floats silu(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  return recorded_with(
      tape, "silu", input, silu(input, issued_at), input, silu_gradient, issued_at);
}

Floats clamp(
    AnyTape& tape, Floats const& input, float low, float high, std::source_location issued_at) {
  return recorded(
      tape,
      "clamp",
      input,
      clamp(input, low, high, issued_at),
      [input, low, high, issued_at](Floats const& gradient) {
        return clamp_gradient(input, low, high, gradient, issued_at);
      },
      issued_at);
}

Floats add_scalar(AnyTape& tape, Floats const& input, float term, std::source_location issued_at) {
  return recorded(
      tape,
      "add_scalar",
      input,
      add_scalar(input, term, issued_at),
      [](Floats const& gradient) { return gradient; },
      issued_at);
}

Floats prelu(AnyTape& tape,
             Floats const& input,
             Floats const& weight,
             std::source_location issued_at) {
  return recorded(
      tape,
      "prelu",
      input,
      weight,
      prelu(input, weight, issued_at),
      [input, weight, issued_at](Floats const& gradient, WantedOperands wanted) {
        return prelu_gradient(input, weight, gradient, wanted, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops::detail
