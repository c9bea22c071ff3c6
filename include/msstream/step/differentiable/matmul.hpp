// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats matmul(AnyTape& tape,
                            Floats const& left,
                            Floats const& right,
                            MatmulOptions const& options,
                            std::source_location issued_at);

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> matmul(
    GradientTape<R>& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    MatmulOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::matmul(tape, left, right, options, issued_at));
}

}  // namespace msstream::ops
