// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>

#include <source_location>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats transpose(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats add_identity(Floats const& input,
                                  float factor,
                                  std::source_location issued_at);

}  // namespace detail

/// Transposes matrices: [rows, columns] → [columns, rows], or [batch, rows, columns] → [batch,
/// columns, rows], float32. The gradient is the transpose of the output's gradient. Asynchronous;
/// capture-safe. Throws std::invalid_argument for another rank.
template <Runtime R>
[[nodiscard]] Tensor<float, R> transpose(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::transpose(input, issued_at));
}

/// Returns input + factor * I for a square matrix and the identity I, float32. The gradient of the
/// input is the output's gradient. Asynchronous; capture-safe. Throws std::invalid_argument unless
/// input is [width, width].
template <Runtime R>
[[nodiscard]] Tensor<float, R> add_identity(
    Tensor<float, R> const& input,
    float factor = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add_identity(input, factor, issued_at));
}

}  // namespace msstream::ops
