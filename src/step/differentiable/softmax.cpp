// SPDX-License-Identifier: Apache-2.0
#include "step/recorded.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/step/differentiable/loss.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {
namespace {

Floats recorded_softmax(AnyTape& tape,
                        Floats const& input,
                        Floats const& output,
                        std::source_location issued_at) {
  return recorded(
      tape,
      "softmax",
      input,
      output,
      [output, issued_at](auto const& gradient) {
        return softmax_gradient(output, gradient, issued_at);
      },
      issued_at);
}

}  // namespace

Floats softmax(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  return recorded_softmax(tape, input, softmax(input, issued_at), issued_at);
}

Floats softmax(AnyTape& tape,
               Floats const& input,
               TensorOf<std::int64_t> const& lengths,
               std::source_location issued_at) {
  return recorded_softmax(tape, input, softmax(input, lengths, issued_at), issued_at);
}

Floats mean_softmax_cross_entropy(AnyTape& tape,
                                  Floats const& logits,
                                  TensorOf<std::int64_t> const& classes,
                                  CrossEntropyOptions<AnyRuntime> const& options,
                                  std::source_location issued_at) {
  auto const result = softmax_cross_entropy(logits, classes, options, issued_at);
  auto const factor = 1.0F / static_cast<float>(result.losses.count());
  return recorded(
      tape,
      "mean_softmax_cross_entropy",
      logits,
      mean(result.losses, issued_at),
      [gradients = result.gradients, factor, issued_at](auto const& gradient) {
        return scale_by_scalar(gradients, gradient, factor, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops::detail
