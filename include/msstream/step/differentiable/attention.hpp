// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/attention.hpp>
#include <msstream/step/differentiable/matmul.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

/// The operations of ops/attention.hpp with a tape as first argument. The results are the same; the
/// tape records the backward.
namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> attention_scores(
    GradientTape<R>& tape,
    Tensor<float, R> const& queries,
    Tensor<float, R> const& keys,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const scores = attention_scores(queries, keys, options, issued_at);
  return detail::recorded(
      tape,
      "attention_scores",
      queries,
      keys,
      scores,
      [queries, keys, scores, options, issued_at](auto const& gradient, auto wanted) {
        return attention_scores_gradient(
            queries, keys, scores, gradient, options, wanted, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> attention(
    GradientTape<R>& tape,
    Tensor<float, R> const& queries,
    Tensor<float, R> const& keys,
    Tensor<float, R> const& values,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return matmul(
      tape, attention_scores(tape, queries, keys, options, issued_at), values, {}, issued_at);
}

}  // namespace msstream::ops
