// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/attention.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

/// The operations of ops/attention.hpp with a tape as first argument. The results are the same; the
/// tape records the backward.
namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats attention_scores(AnyTape& tape,
                                      Floats const& queries,
                                      Floats const& keys,
                                      AttentionOptions<AnyRuntime> const& options,
                                      std::source_location issued_at);
[[nodiscard]] Floats attention(AnyTape& tape,
                               Floats const& queries,
                               Floats const& keys,
                               Floats const& values,
                               AttentionOptions<AnyRuntime> const& options,
                               std::source_location issued_at);

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> attention_scores(
    GradientTape<R>& tape,
    Tensor<float, R> const& queries,
    Tensor<float, R> const& keys,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::attention_scores(tape, queries, keys, options, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> attention(
    GradientTape<R>& tape,
    Tensor<float, R> const& queries,
    Tensor<float, R> const& keys,
    Tensor<float, R> const& values,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::attention(tape, queries, keys, values, options, issued_at));
}

}  // namespace msstream::ops
