// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/reduce.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>
#include <source_location>
#include <utility>

/// The operations of ops/reduce.hpp with a tape as first argument. The results are the same; the
/// tape records the backward.
namespace msstream::ops {

namespace detail {

template <Runtime R>
Tensor<float, R> recorded_sum(GradientTape<R>& tape,
                              char const* operation,
                              Tensor<float, R> const& input,
                              Tensor<float, R> output,
                              std::int64_t axis,
                              float factor,
                              std::source_location issued_at) {
  return recorded(
      tape,
      operation,
      input,
      std::move(output),
      [shape = input.shape(), axis, factor, issued_at](auto const& gradient) {
        return sum_gradient(gradient, shape, axis, factor, issued_at);
      },
      issued_at);
}
template <Runtime R>
Tensor<float, R> recorded_extremum(GradientTape<R>& tape,
                                   char const* operation,
                                   Tensor<float, R> const& input,
                                   Tensor<float, R> const& output,
                                   std::int64_t axis,
                                   std::source_location issued_at) {
  return recorded(
      tape,
      operation,
      input,
      output,
      [input, output, axis, issued_at](auto const& gradient) {
        return extremum_gradient(input, output, gradient, axis, issued_at);
      },
      issued_at);
}

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded_sum(
      tape, "sum", input, sum(input, axis, options, issued_at), axis, 1.0F, issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto output = mean(input, axis, options, issued_at);
  auto const dimension = detail::require_axis("mean", input.shape(), axis);
  auto const factor = 1.0F / static_cast<float>(input.shape()[dimension]);
  return detail::recorded_sum(tape, "mean", input, std::move(output), axis, factor, issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> max(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded_extremum(
      tape, "max", input, max(input, axis, options, issued_at), axis, issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> min(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded_extremum(
      tape, "min", input, min(input, axis, options, issued_at), axis, issued_at);
}

}  // namespace msstream::ops
