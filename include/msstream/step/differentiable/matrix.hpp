// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/matrix.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

/// The operations of ops/matrix.hpp with a tape as first argument. The results are the same; the
/// tape records the backward.
namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> transpose(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded(
      tape,
      "transpose",
      input,
      transpose(input, issued_at),
      [issued_at](auto const& gradient) { return transpose(gradient, issued_at); },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> add_identity(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    float factor = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded(
      tape,
      "add_identity",
      input,
      add_identity(input, factor, issued_at),
      [](auto const& gradient) { return gradient; },
      issued_at);
}

}  // namespace msstream::ops
