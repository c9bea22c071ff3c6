// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/gradient_tape.hpp>

#include <cstdint>

namespace msstream::ops {

/// Returns input.rows(begin, end). The tape needs no record of it, because the gradient of a view
/// is added to that of the whole tensor.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> rows(GradientTape<R>& /*tape*/,
                                Tensor<T, R> const& input,
                                std::int64_t begin,
                                std::int64_t end) {
  return input.rows(begin, end);
}

}  // namespace msstream::ops
