// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/reduce.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>
#include <utility>

/// ops/reduce.hpp with a tape as first argument: the same results, and the backward recorded.
namespace msstream::ops {

namespace detail {

template <Runtime R>
Tensor<float, R> recorded_sum(GradientTape<R>& tape,
                              char const* operation,
                              Tensor<float, R> const& input,
                              Tensor<float, R> output,
                              std::int64_t axis,
                              float factor) {
  return recorded(tape,
                  operation,
                  input,
                  std::move(output),
                  [shape = input.shape(), axis, factor](auto const& gradient) {
                    return sum_gradient(gradient, shape, axis, factor);
                  });
}
template <Runtime R>
Tensor<float, R> recorded_extremum(GradientTape<R>& tape,
                                   char const* operation,
                                   Tensor<float, R> const& input,
                                   Tensor<float, R> const& output,
                                   std::int64_t axis) {
  return recorded(tape, operation, input, output, [input, output, axis](auto const& gradient) {
    return extremum_gradient(input, output, gradient, axis);
  });
}

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(GradientTape<R>& tape,
                                   Tensor<float, R> const& input,
                                   std::int64_t axis,
                                   ReduceOptions options = {}) {
  return detail::recorded_sum(tape, "sum", input, sum(input, axis, options), axis, 1.0F);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(GradientTape<R>& tape,
                                    Tensor<float, R> const& input,
                                    std::int64_t axis,
                                    ReduceOptions options = {}) {
  auto output = mean(input, axis, options);
  auto const dimension = detail::require_axis("mean", input.shape(), axis);
  auto const factor = 1.0F / static_cast<float>(input.shape()[dimension]);
  return detail::recorded_sum(tape, "mean", input, std::move(output), axis, factor);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> max(GradientTape<R>& tape,
                                   Tensor<float, R> const& input,
                                   std::int64_t axis,
                                   ReduceOptions options = {}) {
  return detail::recorded_extremum(tape, "max", input, max(input, axis, options), axis);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> min(GradientTape<R>& tape,
                                   Tensor<float, R> const& input,
                                   std::int64_t axis,
                                   ReduceOptions options = {}) {
  return detail::recorded_extremum(tape, "min", input, min(input, axis, options), axis);
}

}  // namespace msstream::ops
