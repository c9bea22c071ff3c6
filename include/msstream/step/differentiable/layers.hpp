// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/attention.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/layer_norm.hpp>
#include <msstream/ops/mixture.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <source_location>
#include <vector>

/// Differentiable forms of attention, layer norm and mixtures of experts, with a GradientTape as
/// first argument. Each gives the output of the operation without a tape, and the tape records the
/// backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable attention, layer norm and mixtures of experts, compiled
// once for all runtimes.

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

[[nodiscard]] Floats layer_norm(AnyTape& tape,
                                Floats const& input,
                                Floats const& gain,
                                Floats const& shift,
                                float epsilon,
                                std::source_location issued_at);

[[nodiscard]] Floats mix_experts(AnyTape& tape,
                                 std::vector<Floats> const& experts,
                                 std::vector<GateLogits<AnyRuntime>> const& gates,
                                 std::source_location issued_at);
[[nodiscard]] Floats mix_experts(AnyTape& tape,
                                 std::vector<Floats> const& experts,
                                 Floats const& logits,
                                 Gates const& gates,
                                 std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

template <class... Args>
[[nodiscard]] Floats attention_scores(NoTape, Args const&... args) {
  return attention_scores(args...);
}
template <class... Args>
[[nodiscard]] Floats attention(NoTape, Args const&... args) {
  return attention(args...);
}
[[nodiscard]] inline Floats layer_norm(NoTape,
                                       Floats const& input,
                                       Floats const& gain,
                                       Floats const& shift,
                                       float epsilon,
                                       std::source_location issued_at) {
  return layer_norm(input, gain, shift, epsilon, issued_at).output;
}
template <class... Args>
[[nodiscard]] Floats mix_experts(NoTape, Args const&... args) {
  return mix_experts(args...).output;
}

}  // namespace detail

template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> attention_scores(
    Tape& tape,
    Tensor<float, R> const& queries,
    Tensor<float, R> const& keys,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::attention_scores(tape, queries, keys, options, issued_at));
}

template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> attention(
    Tape& tape,
    Tensor<float, R> const& queries,
    Tensor<float, R> const& keys,
    Tensor<float, R> const& values,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::attention(tape, queries, keys, values, options, issued_at));
}

/// Returns the output of ops::layer_norm(), without the rest of its result; the tape records the
/// backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> layer_norm(
    Tape& tape,
    Tensor<float, R> const& input,
    Tensor<float, R> const& gain,
    Tensor<float, R> const& shift,
    float epsilon = 1e-5F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::layer_norm(tape, input, gain, shift, epsilon, issued_at));
}

/// Returns the output of ops::mix_experts(), [gates, batch, width], without the weights; the tape
/// records the backward.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mix_experts(
    GradientTape<R>& tape,
    std::vector<Tensor<float, R>> const& experts,
    std::vector<GateLogits<R>> const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::mix_experts(tape, detail::untyped(experts), detail::untyped(gates), issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> mix_experts(
    GradientTape<R>& tape,
    std::vector<Tensor<float, R>> const& experts,
    Tensor<float, R> const& logits,
    Gates const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::mix_experts(tape, detail::untyped(experts), logits, gates, issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> mix_experts(
    NoTape tape,
    std::vector<Tensor<float, R>> const& experts,
    std::vector<GateLogits<R>> const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::mix_experts(tape, detail::untyped(experts), detail::untyped(gates), issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> mix_experts(
    NoTape tape,
    std::vector<Tensor<float, R>> const& experts,
    Tensor<float, R> const& logits,
    Gates const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::mix_experts(tape, detail::untyped(experts), logits, gates, issued_at));
}

}  // namespace msstream::ops
