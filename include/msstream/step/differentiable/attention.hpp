// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/attention.hpp>
#include <msstream/step/differentiable/matmul.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

/// ops/attention.hpp with a tape as first argument: the same results, and the backward recorded.
namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> attention_scores(GradientTape<R>& tape,
                                                Tensor<float, R> const& queries,
                                                Tensor<float, R> const& keys,
                                                AttentionOptions<R> const& options = {}) {
  auto const scores = attention_scores(queries, keys, options);
  return detail::recorded(tape,
                          "attention_scores",
                          queries,
                          keys,
                          scores,
                          [queries, keys, scores, options](auto const& gradient, auto wanted) {
                            return attention_scores_gradient(
                                queries, keys, scores, gradient, options, wanted);
                          });
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> attention(GradientTape<R>& tape,
                                         Tensor<float, R> const& queries,
                                         Tensor<float, R> const& keys,
                                         Tensor<float, R> const& values,
                                         AttentionOptions<R> const& options = {}) {
  return matmul(tape, attention_scores(tape, queries, keys, options), values);
}

}  // namespace msstream::ops
