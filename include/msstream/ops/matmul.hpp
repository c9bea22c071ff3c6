// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>

#include <source_location>

namespace msstream::ops {

struct MatmulOptions {
  bool transpose_left = false;
  bool transpose_right = false;
  float factor = 1.0F;  ///< multiplies the product
};

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats matmul(Floats const& left,
                            Floats const& right,
                            MatmulOptions const& options,
                            std::source_location issued_at);
[[nodiscard]] Floats matmul_left_gradient(Floats const& left,
                                          Floats const& right,
                                          MatmulOptions const& options,
                                          Floats const& product_gradient,
                                          std::source_location issued_at);
[[nodiscard]] Floats matmul_right_gradient(Floats const& left,
                                           Floats const& right,
                                           MatmulOptions const& options,
                                           Floats const& product_gradient,
                                           std::source_location issued_at);

}  // namespace detail

/// Returns factor * op(left) · op(right), where op transposes or does nothing: [rows, inner],
/// [inner, columns] → [rows, columns]. If either operand is a batch, [batch, …], the product is a
/// batch. A matrix beside a batch is used for the whole batch.
///
/// float32, in the device's MatmulPrecision. CUDA uses cuBLASLt in one launch; the host uses Eigen.
/// On CUDA, leftᵀ · right with a long inner dimension and a small product is summed in parts, in a
/// workspace, with two or three launches. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument if the shapes do not fit.
template <Runtime R>
[[nodiscard]] Tensor<float, R> matmul(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    MatmulOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::matmul(left, right, options, issued_at));
}

/// Returns the gradient of matmul() with respect to its left operand, in that operand's shape.
template <Runtime R>
[[nodiscard]] Tensor<float, R> matmul_left_gradient(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    MatmulOptions const& options,
    Tensor<float, R> const& product_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::matmul_left_gradient(left, right, options, product_gradient, issued_at));
}
/// Returns the gradient of matmul() with respect to its right operand, in that operand's shape.
template <Runtime R>
[[nodiscard]] Tensor<float, R> matmul_right_gradient(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    MatmulOptions const& options,
    Tensor<float, R> const& product_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::matmul_right_gradient(left, right, options, product_gradient, issued_at));
}

}  // namespace msstream::ops
