// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/layer_norm.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace msstream::ops {

/// The running mean and variance of each column, [width] each, which training updates and
/// evaluation uses. Begin with means of 0 and variances of 1.
template <Runtime R = DefaultRuntime>
struct RunningStatistics {
  Tensor<float, R> mean;      ///< [width], 0 at first
  Tensor<float, R> variance;  ///< [width], 1 at first

  /// Converts to statistics without a runtime type. For use by the library only.
  template <std::same_as<RunningStatistics<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {mean, variance};
  }
};

/// Options of batch_norm() and dice().
template <Runtime R = DefaultRuntime>
struct BatchNormOptions {
  /// The share of the batch in the running statistics, in [0, 1].
  float momentum = 0.1F;
  float epsilon = 1e-5F;  ///< added to the variance
  /// Rows whose element is 0 do not count in the statistics, such as the padding of a last batch;
  /// they are normalised like the others. One element for each row, or for each run of consecutive
  /// rows: for an input [batch, items, width], [batch], [batch, 1] or [batch, items]. Null: all
  /// rows count.
  std::optional<Tensor<float, R>> mask = {};

  /// Converts to options without a runtime type. For use by the library only.
  template <std::same_as<BatchNormOptions<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {momentum, epsilon, mask};
  }
};

/// The result of batch_norm() or dice(): the output, and the statistics of the batch that the
/// gradient needs.
template <Runtime R = DefaultRuntime>
struct BatchNormResult {
  Tensor<float, R> output;  ///< in the shape of the input
  /// [4, width]: the means, their rounding errors, 1 / sqrt(variance + epsilon), and the number of
  /// rows that count.
  Tensor<float, R> statistics;
};

namespace detail {

template <Runtime R>
[[nodiscard]] BatchNormResult<R> typed(BatchNormResult<AnyRuntime> result) {
  return {typed<R>(std::move(result.output)), typed<R>(std::move(result.statistics))};
}

// The implementations of batch_norm(), its gradient, l2_normalize() and its gradient, compiled once
// for all runtimes.

[[nodiscard]] BatchNormResult<AnyRuntime> batch_norm(Floats const& input,
                                                     Floats const& weight,
                                                     Floats const& bias,
                                                     RunningStatistics<AnyRuntime> const& running,
                                                     BatchNormOptions<AnyRuntime> const& options,
                                                     std::source_location issued_at);
[[nodiscard]] Floats batch_norm_inference(Floats const& input,
                                          Floats const& weight,
                                          Floats const& bias,
                                          RunningStatistics<AnyRuntime> const& running,
                                          BatchNormOptions<AnyRuntime> const& options,
                                          std::source_location issued_at);
[[nodiscard]] LayerNormGradients<AnyRuntime> batch_norm_gradient(Floats const& input,
                                                                 Floats const& weight,
                                                                 Floats const& statistics,
                                                                 Floats const& output_gradient,
                                                                 WantedOfLayerNorm wanted,
                                                                 std::optional<Floats> const& mask,
                                                                 std::source_location issued_at);
[[nodiscard]] Floats l2_normalize(Floats const& input,
                                  float epsilon,
                                  std::source_location issued_at);
[[nodiscard]] Floats l2_normalize_gradient(Floats const& input,
                                           Floats const& output_gradient,
                                           float epsilon,
                                           std::source_location issued_at);

}  // namespace detail

/// Returns (input - mean) / sqrt(variance + epsilon) * weight + bias, with the mean and the
/// variance of each column over the batch (Ioffe, Szegedy: Batch Normalization, 2015): input [...,
/// width], weight and bias [width], float32. Also updates the running statistics: running = (1 -
/// momentum) * running + momentum * the batch's, where the batch's variance is divided by rows - 1,
/// as in PyTorch. The running statistics of a column stay as they are if fewer than two rows count,
/// or if the batch's are NaN or infinite. If one row counts, its output is the bias, and its input
/// gets a gradient of 0.
///
/// The sums are added in float64, in an order that the sizes decide. Two launches for up to 64 rows
/// and three for more; asynchronous; capture-safe; deterministic. Throws std::invalid_argument for
/// bad shapes, a mask among them, for a momentum outside [0, 1], and unless epsilon is finite and
/// not negative.
template <Runtime R>
[[nodiscard]] BatchNormResult<R> batch_norm(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& bias,
    RunningStatistics<R> const& running,
    BatchNormOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::batch_norm(input, weight, bias, running, options, issued_at));
}

/// Returns batch_norm() with the running mean and variance in place of the batch's, for evaluation
/// and serving: a row's output does not depend on other rows. Changes no statistics. One launch.
template <Runtime R>
[[nodiscard]] Tensor<float, R> batch_norm_inference(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& bias,
    RunningStatistics<R> const& running,
    BatchNormOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::batch_norm_inference(input, weight, bias, running, options, issued_at));
}

/// Returns the gradients of batch_norm(), including those that the input has through the statistics
/// of the batch, from the statistics of its result and the mask of its options. Weight and bias are
/// computed in any case. Up to three launches. Deterministic.
template <Runtime R>
[[nodiscard]] LayerNormGradients<R> batch_norm_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& statistics,
    Tensor<float, R> const& output_gradient,
    WantedOfLayerNorm wanted = {},
    std::type_identity_t<std::optional<Tensor<float, R>>> const& mask = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::batch_norm_gradient(
      input, weight, statistics, output_gradient, wanted, mask, issued_at));
}

/// Returns each row divided by the larger of epsilon and its Euclidean norm: input [..., width],
/// float32. Computed in float64 and rounded once. One launch; asynchronous; capture-safe;
/// deterministic. Throws std::invalid_argument unless epsilon is finite and above 0, and for a
/// tensor without dimensions.
template <Runtime R>
[[nodiscard]] Tensor<float, R> l2_normalize(
    Tensor<float, R> const& input,
    float epsilon = 1e-12F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::l2_normalize(input, epsilon, issued_at));
}
/// Returns the gradient of l2_normalize(), from its input and the gradient of the output. One
/// launch.
template <Runtime R>
[[nodiscard]] Tensor<float, R> l2_normalize_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output_gradient,
    float epsilon = 1e-12F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::l2_normalize_gradient(input, output_gradient, epsilon, issued_at));
}

}  // namespace msstream::ops
