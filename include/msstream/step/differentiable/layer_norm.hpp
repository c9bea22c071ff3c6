// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/layer_norm.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats layer_norm(AnyTape& tape,
                                Floats const& input,
                                Floats const& gain,
                                Floats const& shift,
                                float epsilon,
                                std::source_location issued_at);

}  // namespace detail

/// Like ops::layer_norm(), but the tape records the backward. Returns only the output.
template <Runtime R>
[[nodiscard]] Tensor<float, R> layer_norm(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    Tensor<float, R> const& gain,
    Tensor<float, R> const& shift,
    float epsilon = 1e-5F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::layer_norm(tape, input, gain, shift, epsilon, issued_at));
}

}  // namespace msstream::ops
