// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <cstdint>
#include <source_location>

/// Differentiable forms of the reductions over an axis, with a GradientTape as first argument. Each
/// gives the result of the operation without a tape, and the tape records the backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable sum(), mean(), max() and min() over an axis and of
// top_k(), compiled once for all runtimes.

[[nodiscard]] Floats sum(AnyTape& tape,
                         Floats const& input,
                         std::int64_t axis,
                         ReduceOptions options,
                         std::source_location issued_at);
[[nodiscard]] Floats mean(AnyTape& tape,
                          Floats const& input,
                          std::int64_t axis,
                          ReduceOptions options,
                          std::source_location issued_at);
[[nodiscard]] Floats max(AnyTape& tape,
                         Floats const& input,
                         std::int64_t axis,
                         ReduceOptions options,
                         std::source_location issued_at);
[[nodiscard]] Floats min(AnyTape& tape,
                         Floats const& input,
                         std::int64_t axis,
                         ReduceOptions options,
                         std::source_location issued_at);
[[nodiscard]] TopK<AnyRuntime> top_k(AnyTape& tape,
                                     Floats const& values,
                                     std::int64_t k,
                                     std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

[[nodiscard]] inline Floats sum(NoTape,
                                Floats const& input,
                                std::int64_t axis,
                                ReduceOptions options,
                                std::source_location issued_at) {
  return sum(input, axis, options, issued_at);
}
[[nodiscard]] inline Floats mean(NoTape,
                                 Floats const& input,
                                 std::int64_t axis,
                                 ReduceOptions options,
                                 std::source_location issued_at) {
  return mean(input, axis, options, issued_at);
}
template <class... Args>
[[nodiscard]] Floats max(NoTape, Args const&... args) {
  return max(args...);
}
template <class... Args>
[[nodiscard]] Floats min(NoTape, Args const&... args) {
  return min(args...);
}
[[nodiscard]] inline TopK<AnyRuntime> top_k(NoTape,
                                            Floats const& values,
                                            std::int64_t k,
                                            std::source_location issued_at) {
  return top_k(values, k, issued_at);
}

}  // namespace detail

/// Returns ops::sum() over an axis; each element gets the gradient of its sum.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> sum(
    Tape& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sum(tape, input, axis, options, issued_at));
}

/// Returns ops::mean() over an axis; each element gets its share of the gradient of its mean.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> mean(
    Tape& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mean(tape, input, axis, options, issued_at));
}

/// Returns ops::max() over an axis; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> max(
    Tape& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::max(tape, input, axis, options, issued_at));
}

/// Returns ops::min() over an axis; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> min(
    Tape& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::min(tape, input, axis, options, issued_at));
}

/// Returns top_k() of the values; the tape records the backward of the values found.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] TopK<R> top_k(Tape& tape,
                            Tensor<float, R> const& values,
                            std::int64_t k,
                            std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::top_k(tape, values, k, issued_at));
}

}  // namespace msstream::ops
