// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/matmul.hpp>
#include <msstream/ops/softmax.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <source_location>

/// Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), float32. Asynchronous;
/// capture-safe; deterministic. Matrix products use the device's MatmulPrecision.
namespace msstream::ops {

template <Runtime R = DefaultRuntime>
struct AttentionOptions {
  /// The number of leading keys that count for each batch element, [batch], or any other number of
  /// lengths that softmax() accepts for the scores. The other keys get a score of 0. Read on the
  /// device. Without lengths all keys count.
  std::optional<Tensor<std::int64_t, R>> lengths = {};
  /// The factor of the products of queries and keys. If it is not set, 1 / sqrt(width) is used.
  std::optional<float> factor = {};
};

namespace detail {

/// Returns the options of the matrix product that attention_scores() passes to softmax(). Throws
/// std::invalid_argument unless the shapes of queries and keys are those that attention_scores()
/// accepts.
template <Runtime R>
[[nodiscard]] MatmulOptions attention_product(char const* operation,
                                              Shape const& queries,
                                              Shape const& keys,
                                              AttentionOptions<R> const& options) {
  auto const is_matrix = [](Shape const& shape) { return shape.rank() == 2 || shape.rank() == 3; };
  bool const fit = is_matrix(queries) && is_matrix(keys) &&
                   queries[queries.rank() - 1] == keys[keys.rank() - 1] &&
                   (queries.rank() == 2 || keys.rank() == 2 || queries[0] == keys[0]);
  require(fit,
          operation,
          ": queries ",
          queries,
          ", keys ",
          keys,
          "; expected [queries, width] and [keys, width], either in a batch");
  auto const width = static_cast<float>(keys[keys.rank() - 1]);
  return {.transpose_right = true, .factor = options.factor.value_or(1.0F / std::sqrt(width))};
}

}  // namespace detail

/// Returns softmax(factor * queries · keysᵀ) over the keys: queries [batch, queries, width], keys
/// [batch, keys, width] → [batch, queries, keys]. Either operand, or both, may be a matrix without
/// the batch dimension, which is then used for the whole batch. Keys beyond a length have no
/// influence, even if they are NaN. Two launches. Throws std::invalid_argument if the shapes do not
/// fit.
template <Runtime R>
[[nodiscard]] Tensor<float, R> attention_scores(
    Tensor<float, R> const& queries,
    Tensor<float, R> const& keys,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const product =
      detail::attention_product("attention_scores", queries.shape(), keys.shape(), options);
  auto const products = matmul(queries, keys, product, issued_at);
  return options.lengths ? softmax(products, *options.lengths, issued_at)
                         : softmax(products, issued_at);
}

/// Returns the gradients of attention_scores() with respect to queries (left) and keys (right),
/// from its operands, its result and the result's gradient. One launch, plus one for each wanted
/// gradient, plus one for each wanted gradient of a matrix that was used for a whole batch. Keys
/// and queries must be finite even where the scores are 0.
template <Runtime R>
[[nodiscard]] OperandGradients<R> attention_scores_gradient(
    Tensor<float, R> const& queries,
    Tensor<float, R> const& keys,
    Tensor<float, R> const& scores,
    Tensor<float, R> const& scores_gradient,
    AttentionOptions<R> const& options = {},
    WantedOperands wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const product = detail::attention_product(
      "attention_scores_gradient", queries.shape(), keys.shape(), options);
  OperandGradients<R> gradients;
  if (!wanted.left && !wanted.right) {
    return gradients;
  }
  auto const of_products = softmax_gradient(scores, scores_gradient, issued_at);
  if (wanted.left) {
    gradients.left = matmul_left_gradient(queries, keys, product, of_products, issued_at);
  }
  if (wanted.right) {
    gradients.right = matmul_right_gradient(queries, keys, product, of_products, issued_at);
  }
  return gradients;
}

/// Returns the sum of the values, weighted by the attention_scores() of each query: values [batch,
/// keys, outputs] → [batch, queries, outputs]. Three launches. Values beyond a length have no
/// influence as long as they are finite. Throws std::invalid_argument if the shapes do not fit.
template <Runtime R>
[[nodiscard]] Tensor<float, R> attention(
    Tensor<float, R> const& queries,
    Tensor<float, R> const& keys,
    Tensor<float, R> const& values,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return matmul(attention_scores(queries, keys, options, issued_at), values, {}, issued_at);
}

}  // namespace msstream::ops
