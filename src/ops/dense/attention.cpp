// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
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

Floats attention_scores(Floats const& queries,
                        Floats const& keys,
                        AttentionOptions<AnyRuntime> const& options,
                        std::source_location issued_at) {
  auto const product =
      attention_product("attention_scores", queries.shape(), keys.shape(), options);
  auto const products = matmul(queries, keys, product, issued_at);
  return options.lengths ? softmax(products, *options.lengths, issued_at)
                         : softmax(products, issued_at);
}

OperandGradients<AnyRuntime> attention_scores_gradient(Floats const& queries,
                                                       Floats const& keys,
                                                       Floats const& scores,
                                                       Floats const& scores_gradient,
                                                       AttentionOptions<AnyRuntime> const& options,
                                                       WantedOperands wanted,
                                                       std::source_location issued_at) {
  auto const product =
      attention_product("attention_scores_gradient", queries.shape(), keys.shape(), options);
  OperandGradients<AnyRuntime> gradients;
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

Floats attention(Floats const& queries,
                 Floats const& keys,
                 Floats const& values,
                 AttentionOptions<AnyRuntime> const& options,
                 std::source_location issued_at) {
  return matmul(attention_scores(queries, keys, options, issued_at), values, {}, issued_at);
}

}  // namespace msstream::ops::detail
