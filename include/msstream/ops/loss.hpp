// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <source_location>
#include <utility>

namespace msstream::ops {

/// The result of bce_with_logits(): one loss per example, and the gradient of each loss with
/// respect to its logit, sigmoid(logit) - label.
template <Runtime R = DefaultRuntime>
struct BceResult {
  Tensor<float, R> losses;
  Tensor<float, R> gradients;
};

namespace detail {

template <Runtime R>
[[nodiscard]] BceResult<R> typed(BceResult<AnyRuntime> result) {
  return {typed<R>(std::move(result.losses)), typed<R>(std::move(result.gradients))};
}

// The bodies of the functions below.

[[nodiscard]] BceResult<AnyRuntime> bce_with_logits(Floats const& logits,
                                                    Floats const& labels,
                                                    std::source_location issued_at);
[[nodiscard]] Floats scale_by_scalar(Floats const& input,
                                     Floats const& scalar,
                                     float factor,
                                     std::source_location issued_at);

}  // namespace detail

/// Computes the binary cross-entropy of logits x against labels z in [0, 1], both of one shape:
/// max(x, 0) - x z + log(1 + exp(-|x|)). Stable for any logit. An infinite logit gives the limit: 0
/// for +infinity with a label of 1 or -infinity with a label of 0, otherwise infinity. An example
/// whose label is outside [0, 1] has a loss and a gradient of NaN, which shows bad labels without a
/// read by the host. Asynchronous; deterministic. Throws std::invalid_argument if the labels do not
/// have the shape of the logits, even if they have as many elements.
template <Runtime R>
[[nodiscard]] BceResult<R> bce_with_logits(
    Tensor<float, R> const& logits,
    Tensor<float, R> const& labels,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::bce_with_logits(logits, labels, issued_at));
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

}  // namespace msstream::ops
