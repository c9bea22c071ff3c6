// SPDX-License-Identifier: Apache-2.0
#include "step/recorded.hpp"

#include <msstream/ops/matrix.hpp>
#include <msstream/step/differentiable/matrix.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

Floats transpose(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  return recorded(
      tape,
      "transpose",
      input,
      transpose(input, issued_at),
      [issued_at](auto const& gradient) { return transpose(gradient, issued_at); },
      issued_at);
}

Floats add_identity(AnyTape& tape,
                    Floats const& input,
                    float factor,
                    std::source_location issued_at) {
  return recorded(
      tape,
      "add_identity",
      input,
      add_identity(input, factor, issued_at),
      [](auto const& gradient) { return gradient; },
      issued_at);
}

}  // namespace msstream::ops::detail
