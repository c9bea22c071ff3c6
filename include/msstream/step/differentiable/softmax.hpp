// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/ops/softmax.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>
#include <source_location>

/// The operations of ops/softmax.hpp with a tape as first argument. The results are the same; the
/// tape records the backward.
namespace msstream::ops {

namespace detail {

template <Runtime R>
Tensor<float, R> recorded_softmax(GradientTape<R>& tape,
                                  Tensor<float, R> const& input,
                                  Tensor<float, R> const& output,
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

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded_softmax(tape, input, softmax(input, issued_at), issued_at);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    Tensor<std::int64_t, R> const& lengths,
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded_softmax(tape, input, softmax(input, lengths, issued_at), issued_at);
}

/// Returns the mean over the batch of softmax_cross_entropy(), a scalar loss. An example whose
/// class is out of range counts in the batch, with a loss of 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mean_softmax_cross_entropy(
    GradientTape<R>& tape,
    Tensor<float, R> const& logits,
    Tensor<std::int64_t, R> const& classes,
    CrossEntropyOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const result = softmax_cross_entropy(logits, classes, options, issued_at);
  auto const factor = 1.0F / static_cast<float>(result.losses.count());
  return detail::recorded(
      tape,
      "mean_softmax_cross_entropy",
      logits,
      mean(result.losses, issued_at),
      [gradients = result.gradients, factor, issued_at](auto const& gradient) {
        return scale_by_scalar(gradients, gradient, factor, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops
