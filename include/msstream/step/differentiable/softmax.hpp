// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/ops/softmax.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>

/// ops/softmax.hpp with a tape as first argument: the same results, and the backward recorded.
namespace msstream::ops {

namespace detail {

template <Runtime R>
void record_softmax(GradientTape<R>& tape,
                    Tensor<float, R> const& input,
                    Tensor<float, R> const& output) {
  tape.record("softmax",
              output,
              [input, output](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
                if (playing.wants_gradient(input)) {
                  playing.add_gradient(input, softmax_gradient(output, gradient));
                }
              });
}

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax(GradientTape<R>& tape, Tensor<float, R> const& input) {
  auto output = softmax(input);
  detail::record_softmax(tape, input, output);
  return output;
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax(GradientTape<R>& tape,
                                       Tensor<float, R> const& input,
                                       Tensor<std::int64_t, R> const& lengths) {
  auto output = softmax(input, lengths);
  detail::record_softmax(tape, input, output);
  return output;
}

/// The mean over the batch of softmax_cross_entropy: a scalar loss. Examples of a class that is out
/// of range count in the batch, with a loss of 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mean_softmax_cross_entropy(
    GradientTape<R>& tape,
    Tensor<float, R> const& logits,
    Tensor<std::int64_t, R> const& classes,
    CrossEntropyOptions<R> const& options = {}) {
  auto const result = softmax_cross_entropy(logits, classes, options);
  auto loss = mean(result.losses);
  auto const factor = 1.0F / static_cast<float>(result.losses.count());
  tape.record("mean_softmax_cross_entropy",
              loss,
              [logits, gradients = result.gradients, factor](GradientTape<R>& playing,
                                                             Tensor<float, R> const& gradient) {
                if (playing.wants_gradient(logits)) {
                  playing.add_gradient(logits, scale_by_scalar(gradients, gradient, factor));
                }
              });
  return loss;
}

}  // namespace msstream::ops
