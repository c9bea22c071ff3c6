// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>
#include <source_location>

/// Differentiable forms of the reductions over an axis, with a GradientTape as first argument. Each
/// gives the result of the operation without a tape, and the tape records the backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable sum(), mean(), max() and min() over an axis, compiled
// once for all runtimes.

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

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sum(tape, input, axis, options, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mean(tape, input, axis, options, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> max(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::max(tape, input, axis, options, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> min(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::min(tape, input, axis, options, issued_at));
}

}  // namespace msstream::ops
