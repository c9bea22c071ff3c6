// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/activation.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/normalize.hpp>
#include <msstream/step/differentiable/ranks.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <source_location>

/// Differentiable forms of the activations of ops/activation.hpp, with a GradientTape or NoTape as
/// first argument. Each gives the result of the operation without a tape, and the tape records the
/// backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable activations, compiled once for all runtimes.

[[nodiscard]] Floats tanh(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats gelu(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats gelu_tanh(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats silu(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats clamp(
    AnyTape& tape, Floats const& input, float low, float high, std::source_location issued_at);
[[nodiscard]] Floats add_scalar(AnyTape& tape,
                                Floats const& input,
                                float term,
                                std::source_location issued_at);
[[nodiscard]] Floats prelu(AnyTape& tape,
                           Floats const& input,
                           Floats const& weight,
                           std::source_location issued_at);
[[nodiscard]] Floats dice(AnyTape& tape,
                          Floats const& input,
                          Floats const& weight,
                          RunningStatistics<AnyRuntime> const& running,
                          BatchNormOptions<AnyRuntime> const& options,
                          Ranks const& ranks,
                          std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

template <class... Args>
[[nodiscard]] Floats tanh(NoTape, Args const&... args) {
  return tanh(args...);
}
template <class... Args>
[[nodiscard]] Floats gelu(NoTape, Args const&... args) {
  return gelu(args...);
}
template <class... Args>
[[nodiscard]] Floats gelu_tanh(NoTape, Args const&... args) {
  return gelu_tanh(args...);
}
template <class... Args>
[[nodiscard]] Floats silu(NoTape, Args const&... args) {
  return silu(args...);
}
template <class... Args>
[[nodiscard]] Floats clamp(NoTape, Args const&... args) {
  return clamp(args...);
}
template <class... Args>
[[nodiscard]] Floats add_scalar(NoTape, Args const&... args) {
  return add_scalar(args...);
}
template <class... Args>
[[nodiscard]] Floats prelu(NoTape, Args const&... args) {
  return prelu(args...);
}
[[nodiscard]] inline Floats dice(NoTape,
                                 Floats const& input,
                                 Floats const& weight,
                                 RunningStatistics<AnyRuntime> const& running,
                                 BatchNormOptions<AnyRuntime> const& options,
                                 Ranks const& /*ranks*/,
                                 std::source_location issued_at) {
  return dice_inference(input, weight, running, options, issued_at);
}

}  // namespace detail

/// Returns tanh(x) for each element x; its gradient is that of the output times 1 - tanh²(x).
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> tanh(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::tanh(tape, input, issued_at));
}

/// Returns ops::gelu() of the input; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> gelu(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::gelu(tape, input, issued_at));
}

/// Returns ops::gelu_tanh(), the approximation of gelu(); the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> gelu_tanh(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::gelu_tanh(tape, input, issued_at));
}

/// Returns ops::silu() of the input; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> silu(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::silu(tape, input, issued_at));
}

/// Returns ops::clamp(); elements outside [low, high] get a gradient of 0. Throws as it does.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> clamp(
    Tape& tape,
    Tensor<float, R> const& input,
    float low,
    float high,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::clamp(tape, input, low, high, issued_at));
}

/// Returns input + term; the gradient of the output is that of the input.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> add_scalar(
    Tape& tape,
    Tensor<float, R> const& input,
    float term,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add_scalar(tape, input, term, issued_at));
}

/// Returns ops::prelu() with one slope for each column; the input and the slopes get gradients.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> prelu(
    Tape& tape,
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::prelu(tape, input, weight, issued_at));
}

/// Returns the output of ops::dice(), which also updates the running statistics; the tape records
/// the backward. With NoTape, and while a GradientTape::Pause lives, returns ops::dice_inference().
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> dice(
    Tape& tape,
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    RunningStatistics<R> const& running,
    BatchNormOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::dice(tape, input, weight, running, options, {}, issued_at));
}

/// Like dice(), with the mean and the variance of the rows of all ranks of the communicator: see
/// batch_norm() with one.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> dice(
    Tape& tape,
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    RunningStatistics<R> const& running,
    BatchNormOptions<R> const& options,
    comm::Communicator<R> const& ranks,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::dice(tape, input, weight, running, options, ranks.any(), issued_at));
}

}  // namespace msstream::ops
