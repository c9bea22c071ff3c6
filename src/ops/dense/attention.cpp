// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/attention.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/ops/matrix.hpp>

#include <cmath>
#include <source_location>

namespace msstream::ops::detail {
namespace {

/// Returns the options of the matrix product queries x keys in attention_scores(). Throws
/// std::invalid_argument if attention_scores() does not accept the shapes of queries and keys.
[[nodiscard]] MatmulOptions attention_product(char const* operation,
                                              Shape const& queries,
                                              Shape const& keys,
                                              AttentionOptions<AnyRuntime> const& options) {
  auto const is_matrix = [](Shape const& shape) { return shape.rank() == 2 || shape.rank() == 3; };
  bool const fit = is_matrix(queries) && is_matrix(keys) &&
                   queries[queries.rank() - 1] == keys[keys.rank() - 1] &&
                   (queries.rank() == 2 || keys.rank() == 2 || queries[0] == keys[0]);
  require(fit,
          "{}: queries {}, keys {}; expected [queries, width] and [keys, width], either in a batch",
          operation,
          queries,
          keys);
  auto const width = static_cast<float>(keys[keys.rank() - 1]);
  return {.transpose_right = true, .factor = options.factor.value_or(1.0F / std::sqrt(width))};
}

}  // namespace

AnyTensor attention_scores(AnyTensor const& queries,
                           AnyTensor const& keys,
                           AttentionOptions<AnyRuntime> const& options,
                           std::source_location issued_at) {
  auto const product =
      attention_product("attention_scores", queries.shape(), keys.shape(), options);
  auto const products = matmul(queries, keys, product, DType::float32, issued_at);
  return softmax(
      products, options.lengths ? &*options.lengths : nullptr, queries.dtype(), issued_at);
}

AnyOperandGradients attention_scores_gradient(AnyTensor const& queries,
                                              AnyTensor const& keys,
                                              AnyTensor const& scores,
                                              AnyTensor const& scores_gradient,
                                              AttentionOptions<AnyRuntime> const& options,
                                              WantedOperands wanted,
                                              std::source_location issued_at) {
  auto const product =
      attention_product("attention_scores_gradient", queries.shape(), keys.shape(), options);
  AnyOperandGradients gradients;
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

AnyTensor attention(AnyTensor const& queries,
                    AnyTensor const& keys,
                    AnyTensor const& values,
                    AttentionOptions<AnyRuntime> const& options,
                    std::source_location issued_at) {
  auto const scores = attention_scores(queries, keys, options, issued_at);
  return matmul(scores, values, {}, scores.dtype(), issued_at);
}

}  // namespace msstream::ops::detail
