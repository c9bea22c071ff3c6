// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/attention.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/interaction.hpp>
#include <msstream/ops/layer_norm.hpp>
#include <msstream/ops/mixture.hpp>
#include <msstream/ops/normalize.hpp>
#include <msstream/ops/random.hpp>
#include <msstream/step/differentiable/ranks.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <source_location>
#include <string_view>
#include <vector>

/// Differentiable forms of attention, normalisation, dropout, interactions and mixtures of experts,
/// with a GradientTape or NoTape as first argument. Each gives the output of the operation without
/// a tape, and the tape records the backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable operations of this header, compiled once for all
// runtimes.

// Attention and layer norms are of any type. `tape` is null for NoTape.

[[nodiscard]] AnyTensor attention_scores(AnyTape* tape,
                                         AnyTensor const& queries,
                                         AnyTensor const& keys,
                                         AttentionOptions<AnyRuntime> const& options,
                                         std::source_location issued_at);
[[nodiscard]] AnyTensor attention(AnyTape* tape,
                                  AnyTensor const& queries,
                                  AnyTensor const& keys,
                                  AnyTensor const& values,
                                  AttentionOptions<AnyRuntime> const& options,
                                  std::source_location issued_at);
[[nodiscard]] AnyTensor layer_norm(AnyTape* tape,
                                   AnyTensor const& input,
                                   Floats const& weight,
                                   Floats const& bias,
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

[[nodiscard]] AnyTensor dropout(AnyTape& tape,
                                AnyTensor const& input,
                                DropoutOptions const& options,
                                RandomGenerator<AnyRuntime> const& random,
                                std::string_view name,
                                std::source_location issued_at);
[[nodiscard]] Floats dot_interaction(AnyTape& tape,
                                     Floats const& dense,
                                     Floats const& embeddings,
                                     std::source_location issued_at);
[[nodiscard]] Floats batch_norm(AnyTape& tape,
                                Floats const& input,
                                Floats const& weight,
                                Floats const& bias,
                                RunningStatistics<AnyRuntime> const& running,
                                BatchNormOptions<AnyRuntime> const& options,
                                Ranks const& ranks,
                                std::source_location issued_at);
[[nodiscard]] Floats l2_normalize(AnyTape& tape,
                                  Floats const& input,
                                  float epsilon,
                                  std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

template <class... Args>
[[nodiscard]] Floats mix_experts(NoTape, Args const&... args) {
  return mix_experts(args...).output;
}

[[nodiscard]] inline AnyTensor dropout(NoTape,
                                       AnyTensor const& input,
                                       DropoutOptions const& options,
                                       RandomGenerator<AnyRuntime> const& /*random*/,
                                       std::string_view /*name*/,
                                       std::source_location /*issued_at*/) {
  require_dropout("dropout", input.shape(), options);
  return input;
}
template <class... Args>
[[nodiscard]] Floats dot_interaction(NoTape, Args const&... args) {
  return dot_interaction(args...);
}
[[nodiscard]] inline Floats batch_norm(NoTape,
                                       Floats const& input,
                                       Floats const& weight,
                                       Floats const& bias,
                                       RunningStatistics<AnyRuntime> const& running,
                                       BatchNormOptions<AnyRuntime> const& options,
                                       Ranks const& /*ranks*/,
                                       std::source_location issued_at) {
  return batch_norm_inference(input, weight, bias, running, options, issued_at);
}
template <class... Args>
[[nodiscard]] Floats l2_normalize(NoTape, Args const&... args) {
  return l2_normalize(args...);
}

}  // namespace detail

/// Returns ops::attention_scores() of the type of queries and keys; the tape records the backward.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> attention_scores(
    Tape& tape,
    Tensor<T, R> const& queries,
    Tensor<T, R> const& keys,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::attention_scores(
              detail::tape_or_null(tape), queries.any(), keys.any(), options, issued_at)};
}

/// Returns ops::attention() of the type of queries, keys and values; the tape records the backward
/// as that of attention_scores() and of matmul().
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> attention(
    Tape& tape,
    Tensor<T, R> const& queries,
    Tensor<T, R> const& keys,
    Tensor<T, R> const& values,
    AttentionOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return {
      msstream::detail::OfKnownType(),
      detail::attention(
          detail::tape_or_null(tape), queries.any(), keys.any(), values.any(), options, issued_at)};
}

/// Returns the output of ops::layer_norm() of the input's type, without the rest of its result; the
/// tape records the backward.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> layer_norm(
    Tape& tape,
    Tensor<T, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& bias,
    float epsilon = 1e-5F,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::layer_norm(
              detail::tape_or_null(tape), input.any(), weight, bias, epsilon, issued_at)};
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

/// Returns the output of ops::dropout(); the tape records the backward, which drops what the
/// forward dropped, even if the generator has been advanced since. Outside captures, throws
/// std::invalid_argument for a name that was used for the same samples since the generator's last
/// advance(). With NoTape, and while a
/// GradientTape::Pause lives, returns the input.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> dropout(
    Tape& tape,
    Tensor<T, R> const& input,
    DropoutOptions const& options,
    RandomGenerator<R> const& random,
    std::string_view name,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::dropout(tape, input.any(), options, random, name, issued_at)};
}

/// Returns ops::dot_interaction(); both inputs get gradients.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> dot_interaction(
    Tape& tape,
    Tensor<float, R> const& dense,
    Tensor<float, R> const& embeddings,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::dot_interaction(tape, dense, embeddings, issued_at));
}

/// Returns the output of ops::batch_norm(), which also updates the running statistics; the tape
/// records the backward. With NoTape, and while a GradientTape::Pause lives, returns
/// ops::batch_norm_inference().
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> batch_norm(
    Tape& tape,
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& bias,
    RunningStatistics<R> const& running,
    BatchNormOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::batch_norm(tape, input, weight, bias, running, options, {}, issued_at));
}

/// Like batch_norm(), with the mean and the variance of the rows of all ranks of the communicator,
/// which all ranks call alike: each with rows of its own, as many as it has, also none. The running
/// statistics stay equal on all ranks if they are equal before. The forward and the backward are
/// one collective each, of a few numbers of each column, in float64: one rank alone, and no tape or
/// a Pause, need none. The gradient of the input is that of the sum of the losses of all ranks, and
/// those of weight and bias have the terms of this rank's rows. The bits do not depend on the
/// stream groups. Throws std::invalid_argument for tensors on another device than the
/// communicator's.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> batch_norm(
    Tape& tape,
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& bias,
    RunningStatistics<R> const& running,
    BatchNormOptions<R> const& options,
    comm::Communicator<R> const& ranks,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::batch_norm(tape, input, weight, bias, running, options, ranks.any(), issued_at));
}

/// Returns ops::l2_normalize(), rows divided by their norms; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> l2_normalize(
    Tape& tape,
    Tensor<float, R> const& input,
    float epsilon = 1e-12F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::l2_normalize(tape, input, epsilon, issued_at));
}

}  // namespace msstream::ops
