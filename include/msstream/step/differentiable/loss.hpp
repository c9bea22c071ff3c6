// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <cstdint>
#include <source_location>

/// Differentiable forms of softmax and losses, with a GradientTape as first argument, which records
/// the backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable operations of this header, compiled once for all
// runtimes.

[[nodiscard]] Floats softmax(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats softmax(AnyTape& tape,
                             Floats const& input,
                             TensorOf<std::int64_t> const& lengths,
                             std::source_location issued_at);

// The implementations of the losses, of inputs of any type. The tape is null for NoTape.

[[nodiscard]] Floats bce_with_logits(AnyTape* tape,
                                     AnyTensor const& logits,
                                     Floats const& labels,
                                     LossOptions<AnyRuntime> const& options,
                                     std::source_location issued_at);
[[nodiscard]] Floats softmax_cross_entropy(AnyTape* tape,
                                           AnyTensor const& logits,
                                           TensorOf<std::int64_t> const& classes,
                                           CrossEntropyOptions<AnyRuntime> const& options,
                                           std::source_location issued_at);

[[nodiscard]] Floats mean_bce_with_logits(AnyTape* tape,
                                          AnyTensor const& logits,
                                          Floats const& labels,
                                          LossOptions<AnyRuntime> const& options,
                                          std::source_location issued_at);
[[nodiscard]] Floats mean_softmax_cross_entropy(AnyTape* tape,
                                                AnyTensor const& logits,
                                                TensorOf<std::int64_t> const& classes,
                                                CrossEntropyOptions<AnyRuntime> const& options,
                                                std::source_location issued_at);
[[nodiscard]] Floats mse_loss(AnyTape* tape,
                              AnyTensor const& predictions,
                              Floats const& targets,
                              LossOptions<AnyRuntime> const& options,
                              std::source_location issued_at);
[[nodiscard]] Floats hinge_loss(AnyTape* tape,
                                AnyTensor const& logits,
                                Floats const& labels,
                                float margin,
                                LossOptions<AnyRuntime> const& options,
                                std::source_location issued_at);
[[nodiscard]] Floats bpr_loss(AnyTape* tape,
                              AnyTensor const& positives,
                              AnyTensor const& negatives,
                              LossOptions<AnyRuntime> const& options,
                              std::source_location issued_at);
[[nodiscard]] Floats margin_ranking_loss(AnyTape* tape,
                                         AnyTensor const& positives,
                                         AnyTensor const& negatives,
                                         float margin,
                                         LossOptions<AnyRuntime> const& options,
                                         std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

template <class... Args>
[[nodiscard]] Floats softmax(NoTape, Args const&... args) {
  return softmax(args...);
}

}  // namespace detail

/// Returns ops::softmax(), along rows or segments; the tape records the backward.
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

// Logits, predictions and scores are float32, float16 or bfloat16, and get gradients of their type.
// Losses, labels, targets, weights and sums are float32. The tape keeps the derivatives in float32,
// and rounds a gradient once.

/// Returns the losses of ops::softmax_cross_entropy(), [batch]; the tape records the backward.
/// CrossEntropyOptions::reduction has no effect. Weights get no gradient.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> softmax_cross_entropy(
    Tape& tape,
    Tensor<T, R> const& logits,
    Tensor<std::int64_t, R> const& classes,
    CrossEntropyOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::softmax_cross_entropy(
      detail::tape_or_null(tape), logits.any(), classes, options, issued_at));
}

/// Returns the mean over the batch of softmax_cross_entropy(), a scalar loss, divided as
/// CrossEntropyOptions::reduction says; 0, with gradients of 0, for a batch without rows. An
/// example whose class is out of range counts in the batch, with a loss of 0; one of the
/// ignore_index does not. If no example counts, the loss and the gradients are 0. Weights get no
/// gradient.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> mean_softmax_cross_entropy(
    Tape& tape,
    Tensor<T, R> const& logits,
    Tensor<std::int64_t, R> const& classes,
    CrossEntropyOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mean_softmax_cross_entropy(
      detail::tape_or_null(tape), logits.any(), classes, options, issued_at));
}

/// Returns the losses of ops::bce_with_logits(), in the logits' shape; the tape records the
/// backward. The labels and weights get no gradient.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> bce_with_logits(
    Tape& tape,
    Tensor<T, R> const& logits,
    Tensor<float, R> const& labels,
    LossOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::bce_with_logits(
      detail::tape_or_null(tape), logits.any(), labels, options, issued_at));
}

// The losses below are scalars, means over all elements. The mean of a batch without rows is 0, and
// its gradients are 0, so that a rank without rows takes part in a step. Targets, labels and
// weights get no gradient. Throws std::invalid_argument for shapes that do not match and numbers
// out of range.

/// Returns the mean of bce_with_logits().
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> mean_bce_with_logits(
    Tape& tape,
    Tensor<T, R> const& logits,
    Tensor<float, R> const& labels,
    LossOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mean_bce_with_logits(
      detail::tape_or_null(tape), logits.any(), labels, options, issued_at));
}

/// Returns the mean of (prediction - target)^2, of predictions and targets of one shape, with the
/// weights of the options.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> mse_loss(
    Tape& tape,
    Tensor<T, R> const& predictions,
    Tensor<float, R> const& targets,
    LossOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::mse_loss(detail::tape_or_null(tape), predictions.any(), targets, options, issued_at));
}

/// Returns the mean of max(0, margin - (2 label - 1) logit), of logits and labels of one shape,
/// with the weights of the options. A label is in [0, 1]; another makes the loss NaN.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> hinge_loss(
    Tape& tape,
    Tensor<T, R> const& logits,
    Tensor<float, R> const& labels,
    float margin = 1.0F,
    LossOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::hinge_loss(
      detail::tape_or_null(tape), logits.any(), labels, margin, options, issued_at));
}

/// Returns the mean of -log(sigmoid(positive - negative)), the pairwise logistic loss of Bayesian
/// personalized ranking (Rendle et al. 2009). Scores of equal shapes make a pair for each element;
/// positives [batch, 1] and negatives [batch, n] make n pairs of each example. Throws
/// std::invalid_argument for scores with other numbers of dimensions, such as [batch] beside
/// [batch, 1].
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> bpr_loss(
    Tape& tape,
    Tensor<T, R> const& positives,
    Tensor<T, R> const& negatives,
    LossOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::bpr_loss(
      detail::tape_or_null(tape), positives.any(), negatives.any(), options, issued_at));
}

/// Returns the mean of max(0, margin - (positive - negative)). The shapes of the scores are those
/// of bpr_loss().
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> margin_ranking_loss(
    Tape& tape,
    Tensor<T, R> const& positives,
    Tensor<T, R> const& negatives,
    float margin = 0.0F,
    LossOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::margin_ranking_loss(
      detail::tape_or_null(tape), positives.any(), negatives.any(), margin, options, issued_at));
}

}  // namespace msstream::ops
