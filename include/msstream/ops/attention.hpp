// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <source_location>

/// Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1). Asynchronous; capture-safe;
/// deterministic. Products of float32 use the device's MatmulPrecision.
///
/// Queries, keys and values are of one type T: float32, float16 or bfloat16. Products of queries
/// and keys are added in float32, stay float32 and enter the softmax so. The scores are its result,
/// rounded to T once; their products with values are added in float32 and rounded to T once. In the
/// backward, the gradient of the scores is rounded to T, the gradient of the softmax is computed in
/// float32 and rounded to T, and the gradients of queries, keys and values are added in float32 and
/// rounded to T once.
namespace msstream::ops {

template <Runtime R = DefaultRuntime>
struct AttentionOptions {
  /// The number of leading keys that count for each batch element, [batch], or any other number of
  /// lengths that softmax() accepts for the scores. Keys beyond a length get a score of 0. The
  /// lengths are read on the device. Null: all keys count.
  std::optional<Tensor<std::int64_t, R>> lengths = {};
  /// The factor of the products of queries and keys. If it is not set, 1 / sqrt(width) is used.
  std::optional<float> factor = {};

  /// Converts to options without a runtime type. For use by the library only.
  template <std::same_as<AttentionOptions<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {lengths, factor};
  }
};

namespace detail {

// The implementations of attention_scores(), attention_scores_gradient() and attention(), compiled
// once for all types and runtimes.

[[nodiscard]] AnyTensor attention_scores(AnyTensor const& queries,
                                         AnyTensor const& keys,
                                         AttentionOptions<AnyRuntime> const& options,
                                         std::source_location issued_at);
[[nodiscard]] AnyOperandGradients attention_scores_gradient(
    AnyTensor const& queries,
    AnyTensor const& keys,
    AnyTensor const& scores,
    AnyTensor const& scores_gradient,
    AttentionOptions<AnyRuntime> const& options,
    WantedOperands wanted,
    std::source_location issued_at);
[[nodiscard]] AnyTensor attention(AnyTensor const& queries,
                                  AnyTensor const& keys,
                                  AnyTensor const& values,
                                  AttentionOptions<AnyRuntime> const& options,
                                  std::source_location issued_at);

}  // namespace detail

/// Returns softmax(factor * queries · keysᵀ) over the keys: queries [batch, queries, width], keys
/// [batch, keys, width] → [batch, queries, keys]. Either operand, or both, may be a matrix without
/// the batch dimension, which is then used for the whole batch. Keys beyond a length have no
/// influence, even if they are NaN. Two launches. Throws std::invalid_argument if the shapes do not
/// fit.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> attention_scores(
    Tensor<T, R> const& queries,
    Tensor<T, R> const& keys,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::attention_scores(queries.any(), keys.any(), options, issued_at)};
}

/// Returns the gradients of attention_scores() with respect to queries (left) and keys (right),
/// from its operands, its result and the result's gradient. One launch, plus one for each wanted
/// gradient, plus one for each wanted gradient of a matrix that was used for a whole batch, two in
/// half precision. Keys and queries must be finite even where the scores are 0.
template <RealElement T, Runtime R>
[[nodiscard]] OperandGradients<R, T> attention_scores_gradient(
    Tensor<T, R> const& queries,
    Tensor<T, R> const& keys,
    Tensor<T, R> const& scores,
    Tensor<T, R> const& scores_gradient,
    AttentionOptions<R> const& options = {},
    WantedOperands wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R, T>(detail::attention_scores_gradient(
      queries.any(), keys.any(), scores.any(), scores_gradient.any(), options, wanted, issued_at));
}

/// Returns the sum of the values, weighted by the attention_scores() of each query: values [batch,
/// keys, outputs] → [batch, queries, outputs]. Three launches. Values beyond a length have no
/// influence as long as they are finite. Throws std::invalid_argument if the shapes do not fit.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> attention(
    Tensor<T, R> const& queries,
    Tensor<T, R> const& keys,
    Tensor<T, R> const& values,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::attention(queries.any(), keys.any(), values.any(), options, issued_at)};
}

}  // namespace msstream::ops
