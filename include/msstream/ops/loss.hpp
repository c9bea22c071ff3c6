// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops {

/// Weights of the losses of elements. A weight of 0 makes the loss and the gradient 0 whatever the
/// input and the target are, so that examples without a label can be left out.
template <Runtime R = DefaultRuntime>
struct LossOptions {
  /// In the shape of the inputs, or one for each row of them: [batch] or [batch, 1]. Null: all are
  /// 1.
  std::optional<Tensor<float, R>> weight = {};
  /// For bce_with_logits(): the factor of the loss of the positive part of a label.
  float pos_weight = 1.0F;
  /// The divisor of a loss that is a mean. PyTorch divides by the number of elements.
  LossReduction reduction = LossReduction::mean;

  /// Converts to options without a runtime type. For use by the library only.
  template <std::same_as<LossOptions<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {weight, pos_weight, reduction};
  }
};

/// The result of bce_with_logits(): one loss per example, and the gradient of each loss with
/// respect to its logit, in the logit's type: (sigmoid(logit) - label), with weights as LossOptions
/// describes.
template <Runtime R = DefaultRuntime, RealElement T = float>
struct BceResult {
  Tensor<float, R> losses;  ///< in the shape of the logits
  Tensor<T, R> gradients;   ///< in the shape of the logits
};

namespace detail {

/// Losses, and their gradients with respect to their inputs.
struct AnyLosses {
  Floats losses;
  AnyTensor gradients;
};

// The implementations of bce_with_logits() and scale_by_scalar(), compiled once for all types and
// runtimes.

[[nodiscard]] AnyLosses bce_with_logits(AnyTensor const& logits,
                                        Floats const& labels,
                                        LossOptions<AnyRuntime> const& options,
                                        std::source_location issued_at);
[[nodiscard]] Floats scale_by_scalar(Floats const& input,
                                     Floats const& scalar,
                                     float factor,
                                     std::source_location issued_at);
/// Returns factor * scalar * input, rounded once to a type.
[[nodiscard]] AnyTensor scale_by_scalar(Floats const& input,
                                        Floats const& scalar,
                                        float factor,
                                        DType to,
                                        std::source_location issued_at);
/// Returns the mean of the losses of a batch; 0 for a batch without rows.
[[nodiscard]] Floats mean_loss(Floats const& losses, std::source_location issued_at);
/// Returns the divisor of a mean over elements whose weights, `elements_a_weight` times each, are
/// `weights`: their sum, or a tiny number if it is 0.
[[nodiscard]] Floats sum_of_weights(Floats const& weights,
                                    float elements_a_weight,
                                    std::source_location issued_at);

}  // namespace detail

/// Computes the binary cross-entropy of logits x against labels z in [0, 1], both of one shape:
/// w (p z log(1 + exp(-x)) + (1 - z) log(1 + exp(x))), with the weight w and the pos_weight p of
/// the options. Stable for any logit. An infinite logit gives the limit: 0 for +infinity with a
/// label of 1 or -infinity with a label of 0, otherwise infinity. An example whose label is outside
/// [0, 1] has a loss and a gradient of NaN, which shows bad labels without a read by the host,
/// unless its weight is 0.
///
/// Logits of float16 and bfloat16 are widened; losses, labels and weights are float32, and the
/// gradients are rounded to the type of the logits once. Asynchronous; deterministic. Throws
/// std::invalid_argument if the labels do not have the shape of the logits, even if they have as
/// many elements, for a weight of another shape, and for a pos_weight below 0.
template <RealElement T, Runtime R>
[[nodiscard]] BceResult<R, T> bce_with_logits(
    Tensor<T, R> const& logits,
    Tensor<float, R> const& labels,
    LossOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto result = detail::bce_with_logits(logits.any(), labels, options, issued_at);
  return {detail::typed<R>(std::move(result.losses)),
          {msstream::detail::OfKnownType(), std::move(result.gradients)}};
}

/// Returns factor * scalar * input, where `scalar` is a tensor of one element.
template <Runtime R>
[[nodiscard]] Tensor<float, R> scale_by_scalar(
    Tensor<float, R> const& input,
    Tensor<float, R> const& scalar,
    float factor,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::scale_by_scalar(input, scalar, factor, issued_at));
}

namespace detail {

// The implementations of softmax() and softmax_gradient(), compiled once for all runtimes.

[[nodiscard]] Floats softmax(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats softmax(Floats const& input,
                             TensorOf<std::int64_t> const& lengths,
                             std::source_location issued_at);
/// Returns the softmax of rows of float32 or of `to`, computed in float32 and rounded once to `to`.
/// Without `lengths`, which may be null, all columns take part.
[[nodiscard]] AnyTensor softmax(AnyTensor const& input,
                                TensorOf<std::int64_t> const* lengths,
                                DType to,
                                std::source_location issued_at);
/// Returns the gradient of a softmax of any type, computed in float32 and rounded once.
[[nodiscard]] AnyTensor softmax_gradient(AnyTensor const& output,
                                         AnyTensor const& output_gradient,
                                         std::source_location issued_at);
[[nodiscard]] Floats softmax_gradient(Floats const& output,
                                      Floats const& output_gradient,
                                      std::source_location issued_at);

}  // namespace detail

/// Returns exp(input) / sum of exp(input) over the last dimension of input [..., columns], float32.
/// The largest element is subtracted first, so that nothing overflows. A row is all NaN if it holds
/// NaN or +infinity, or nothing but -infinity. One launch; asynchronous; capture-safe;
/// deterministic. Throws std::invalid_argument for a scalar.
template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::softmax(input, issued_at));
}
/// Returns the softmax over the leading columns of each row only, as many as the row's length; the
/// other columns get 0, and a row of length 0 is all 0. `lengths` is read on the device, and each
/// length is clamped to [0, columns]. The number of lengths must divide the number of rows: each
/// length applies to a run of rows / lengths consecutive rows.
template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax(
    Tensor<float, R> const& input,
    Tensor<std::int64_t, R> const& lengths,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::softmax(input, lengths, issued_at));
}

/// Returns the gradient of softmax(), with or without lengths, from its output y and the output's
/// gradient dy: y * (dy - sum of y * dy), 0 wherever y is 0. One launch.
template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::softmax_gradient(output, output_gradient, issued_at));
}

/// Options of softmax_cross_entropy().
template <Runtime R = DefaultRuntime>
struct CrossEntropyOptions {
  /// The way to report a class outside [0, classes). The loss and the gradients of such an example
  /// are 0 in any case, and it counts in a mean.
  OutOfRange out_of_range = OutOfRange::drop;
  /// For OutOfRange::count: a device scalar that is incremented by the number of bad classes.
  std::optional<Tensor<std::int64_t, R>> bad_id_count = {};
  /// Examples of this class, which may have any value, are left out: the loss and the gradients are
  /// 0, nothing is reported, and a mean is divided by the number of the others. PyTorch has -100.
  std::optional<std::int64_t> ignore_index = {};
  /// In [0, 1]: the part of the target that all classes share equally, as in PyTorch.
  float label_smoothing = 0.0F;
  /// The weight of each example, [batch]; null: all are 1. An example of weight 0 has a loss and
  /// gradients of 0, whatever its logits and its class are, and nothing is reported. PyTorch's
  /// weight is one of classes.
  std::optional<Tensor<float, R>> sample_weight = {};
  /// The divisor of mean_softmax_cross_entropy(): the number of examples, or the sum of their
  /// weights; without those that are ignored.
  LossReduction reduction = LossReduction::mean;
  /// For a softmax over sampled candidates, such as the items of the batch: the id of the item of
  /// each class, [classes]. Classes with the id of an example's class are accidental hits, which
  /// are no negatives: they are left out of the example's softmax, with gradients of 0 if the
  /// others' logits give a softmax (remove_accidental_hits of TensorFlow Recommenders). Without
  /// label smoothing only.
  std::optional<Tensor<std::int64_t, R>> candidate_ids = {};

  /// Converts to options without a runtime type. For use by the library only.
  template <std::same_as<CrossEntropyOptions<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {out_of_range,
            bad_id_count,
            ignore_index,
            label_smoothing,
            sample_weight,
            reduction,
            candidate_ids};
  }
};

/// The result of softmax_cross_entropy(): one loss per example, and the gradient of each loss with
/// respect to its logits, in the logits' type.
template <Runtime R = DefaultRuntime, RealElement T = float>
struct CrossEntropyResult {
  Tensor<float, R> losses;  ///< [batch]
  /// [batch, classes]: softmax(logits), less 1 at the class, times the weight of the example
  Tensor<T, R> gradients;
};

namespace detail {

/// A cross-entropy. With an ignore_index, or weights in a weighted_mean, also has 0 for each
/// example that is ignored, and otherwise 1 or, for a weighted_mean, its weight, [batch].
struct CountedCrossEntropy {
  AnyLosses result;
  std::optional<Floats> counted;
};
// The implementation of softmax_cross_entropy(), compiled once for all types and runtimes. Errors
// name `operation`. The gradients are float32, or have the type of the logits.
[[nodiscard]] CountedCrossEntropy counted_cross_entropy(
    char const* operation,
    AnyTensor const& logits,
    TensorOf<std::int64_t> const& classes,
    CrossEntropyOptions<AnyRuntime> const& options,
    DType gradient_dtype,
    std::source_location issued_at);

}  // namespace detail

/// Computes the cross-entropy of softmax(logits [batch, classes]) against one class per example,
/// [batch]: log(sum of exp(logits)) - logits[class], without overflow, or that of the smoothed
/// target (Szegedy et al. 2016). Infinite logits give the limit: a loss of 0 if only the class has
/// +infinity, infinity if another class has +infinity or the class has -infinity, and NaN if all
/// logits are -infinity.
///
/// Logits of float16 and bfloat16 are widened; losses, sums and weights are float32, and the
/// gradients are rounded to the type of the logits once. One launch; asynchronous; deterministic;
/// capture-safe. Throws std::invalid_argument for bad shapes. With OutOfRange::trap a class outside
/// [0, classes) makes the next to_host() or PinnedArray::wait() throw std::out_of_range.
template <RealElement T, Runtime R>
[[nodiscard]] CrossEntropyResult<R, T> softmax_cross_entropy(
    Tensor<T, R> const& logits,
    Tensor<std::int64_t, R> const& classes,
    CrossEntropyOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto result = detail::counted_cross_entropy(
                    "softmax_cross_entropy", logits.any(), classes, options, dtype_of<T>, issued_at)
                    .result;
  return {detail::typed<R>(std::move(result.losses)),
          {msstream::detail::OfKnownType(), std::move(result.gradients)}};
}

}  // namespace msstream::ops
