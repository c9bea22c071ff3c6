// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <cstdint>
#include <source_location>

/// Differentiable forms of softmax and cross-entropy, with a GradientTape as first argument, which
/// records the backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable softmax() and mean_softmax_cross_entropy(), compiled
// once for all runtimes.

[[nodiscard]] Floats softmax(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats softmax(AnyTape& tape,
                             Floats const& input,
                             TensorOf<std::int64_t> const& lengths,
                             std::source_location issued_at);
[[nodiscard]] Floats mean_softmax_cross_entropy(AnyTape& tape,
                                                Floats const& logits,
                                                TensorOf<std::int64_t> const& classes,
                                                CrossEntropyOptions<AnyRuntime> const& options,
                                                std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

template <class... Args>
[[nodiscard]] Floats softmax(NoTape, Args const&... args) {
  return softmax(args...);
}
[[nodiscard]] inline Floats mean_softmax_cross_entropy(
    NoTape,
    Floats const& logits,
    TensorOf<std::int64_t> const& classes,
    CrossEntropyOptions<AnyRuntime> const& options,
    std::source_location issued_at) {
  return mean(softmax_cross_entropy(logits, classes, options, issued_at).losses, issued_at);
}

}  // namespace detail

template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> softmax(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::softmax(tape, input, issued_at));
}
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> softmax(
    Tape& tape,
    Tensor<float, R> const& input,
    Tensor<std::int64_t, R> const& lengths,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::softmax(tape, input, lengths, issued_at));
}

/// Returns the mean over the batch of softmax_cross_entropy(), a scalar loss. An example whose
/// class is out of range counts in the batch, with a loss of 0.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> mean_softmax_cross_entropy(
    Tape& tape,
    Tensor<float, R> const& logits,
    Tensor<std::int64_t, R> const& classes,
    CrossEntropyOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::mean_softmax_cross_entropy(tape, logits, classes, options, issued_at));
}

}  // namespace msstream::ops
