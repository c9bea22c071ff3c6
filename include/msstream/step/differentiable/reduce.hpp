// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/reduce.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>

/// ops/reduce.hpp with a tape as first argument: the same results, and the backward recorded.
namespace msstream::ops {

namespace detail {

template <Runtime R>
void record_sum(GradientTape<R>& tape,
                char const* operation,
                Tensor<float, R> const& input,
                Tensor<float, R> const& output,
                std::int64_t axis,
                float factor) {
  tape.record(operation,
              output,
              [input, axis, factor](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
                if (playing.wants_gradient(input)) {
                  playing.add_gradient(input, sum_gradient(gradient, input.shape(), axis, factor));
                }
              });
}
template <Runtime R>
void record_extremum(GradientTape<R>& tape,
                     char const* operation,
                     Tensor<float, R> const& input,
                     Tensor<float, R> const& output,
                     std::int64_t axis) {
  tape.record(operation,
              output,
              [input, output, axis](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
                if (playing.wants_gradient(input)) {
                  playing.add_gradient(input, extremum_gradient(input, output, gradient, axis));
                }
              });
}

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(GradientTape<R>& tape,
                                   Tensor<float, R> const& input,
                                   std::int64_t axis,
                                   ReduceOptions options = {}) {
  auto output = sum(input, axis, options);
  detail::record_sum(tape, "sum", input, output, axis, 1.0F);
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(GradientTape<R>& tape,
                                    Tensor<float, R> const& input,
                                    std::int64_t axis,
                                    ReduceOptions options = {}) {
  auto output = mean(input, axis, options);
  auto const dimension = detail::require_axis("mean", input.shape(), axis);
  auto const factor = 1.0F / static_cast<float>(input.shape()[dimension]);
  detail::record_sum(tape, "mean", input, output, axis, factor);
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> max(GradientTape<R>& tape,
                                   Tensor<float, R> const& input,
                                   std::int64_t axis,
                                   ReduceOptions options = {}) {
  auto output = max(input, axis, options);
  detail::record_extremum(tape, "max", input, output, axis);
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> min(GradientTape<R>& tape,
                                   Tensor<float, R> const& input,
                                   std::int64_t axis,
                                   ReduceOptions options = {}) {
  auto output = min(input, axis, options);
  detail::record_extremum(tape, "min", input, output, axis);
  return output;
}

}  // namespace msstream::ops
