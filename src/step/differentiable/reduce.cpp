// SPDX-License-Identifier: Apache-2.0
#include "step/recorded.hpp"

#include <msstream/ops/reduce.hpp>
#include <msstream/step/differentiable/reduce.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <source_location>
#include <utility>

namespace msstream::ops::detail {
namespace {

Floats recorded_sum(AnyTape& tape,
                    char const* operation,
                    Floats const& input,
                    Floats output,
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

Floats recorded_extremum(AnyTape& tape,
                         char const* operation,
                         Floats const& input,
                         Floats const& output,
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

}  // namespace

Floats sum(AnyTape& tape,
           Floats const& input,
           std::int64_t axis,
           ReduceOptions options,
           std::source_location issued_at) {
  return recorded_sum(
      tape, "sum", input, sum(input, axis, options, issued_at), axis, 1.0F, issued_at);
}

Floats mean(AnyTape& tape,
            Floats const& input,
            std::int64_t axis,
            ReduceOptions options,
            std::source_location issued_at) {
  auto output = mean(input, axis, options, issued_at);
  auto const dimension = require_axis("mean", input.shape(), axis);
  auto const factor = 1.0F / static_cast<float>(input.shape()[dimension]);
  return recorded_sum(tape, "mean", input, std::move(output), axis, factor, issued_at);
}

Floats max(AnyTape& tape,
           Floats const& input,
           std::int64_t axis,
           ReduceOptions options,
           std::source_location issued_at) {
  return recorded_extremum(
      tape, "max", input, max(input, axis, options, issued_at), axis, issued_at);
}

Floats min(AnyTape& tape,
           Floats const& input,
           std::int64_t axis,
           ReduceOptions options,
           std::source_location issued_at) {
  return recorded_extremum(
      tape, "min", input, min(input, axis, options, issued_at), axis, issued_at);
}

TopK<AnyRuntime> top_k(AnyTape& tape,
                       Floats const& values,
                       std::int64_t k,
                       std::source_location issued_at) {
  auto found = top_k(values, k, issued_at);
  (void)recorded(
      tape,
      "top_k",
      values,
      found.values,
      [indices = found.indices, columns = values.shape()[1], issued_at](Floats const& gradient) {
        return top_k_gradient(gradient, indices, columns, issued_at);
      },
      issued_at);
  return found;
}

}  // namespace msstream::ops::detail
