// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/elementwise.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::ops::detail {

/// Of `stacked` [count, …] the sum over the first dimension, front to back, in the shape of one;
/// 0 for none.
template <Runtime R>
Tensor<float, R> sum_of_first(Tensor<float, R> const& stacked, Shape const& one) {
  auto const count = stacked.shape()[0];
  if (count == 1) {
    return stacked.reshaped(one);
  }
  if (count == 0) {
    return zeros<float>(Device<R>(stacked.device()), one);
  }
  Tensor<float, R> total(stacked.device(), one);
  std::vector<float const*> terms;
  for (std::int64_t i = 0; i < count; ++i) {
    terms.push_back(stacked.data() + i * total.count());
  }
  issue("add",
        reads(stacked),
        writes(total),
        [terms = std::move(terms), output = total.data(), elements = total.count()](auto stream) {
          kernels::add(stream, terms, output, elements);
        });
  return total;
}

}  // namespace msstream::ops::detail
