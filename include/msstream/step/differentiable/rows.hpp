// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/elementwise.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstdint>
#include <vector>

namespace msstream::ops {

namespace detail {

/// A tensor of `shape` that is 0 but for the rows from `begin` on, which are those of `part`.
template <Runtime R>
Tensor<float, R> surrounded_by_zeros(Tensor<float, R> const& part,
                                     Shape const& shape,
                                     std::int64_t begin) {
  auto whole = zeros<float>(Device<R>(part.device()), shape);
  copy(whole.rows(begin, begin + part.shape()[0]), part);
  return whole;
}

}  // namespace detail

/// Rows [begin, end) of the first dimension, sharing the elements: Tensor::rows() with a gradient.
template <Runtime R>
[[nodiscard]] Tensor<float, R> rows(GradientTape<R>& tape,
                                    Tensor<float, R> const& input,
                                    std::int64_t begin,
                                    std::int64_t end) {
  auto part = input.rows(begin, end);
  if (part.count() != input.count()) {
    tape.record(
        "rows", part, [input, begin](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
          playing.add_gradient(input, detail::surrounded_by_zeros(gradient, input.shape(), begin));
        });
  }
  return part;
}

}  // namespace msstream::ops
