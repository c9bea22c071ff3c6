// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

namespace msstream::ops {

struct MatmulOptions {
  bool transpose_left = false;   ///< multiplies by the transpose of the first factor
  bool transpose_right = false;  ///< multiplies by the transpose of the second factor
  float factor = 1.0F;           ///< multiplies the product
};

namespace detail {

// The implementations of transpose(), add_identity(), concat(), split(), and of matmul() and its
// gradients, which are of any type, compiled once for all runtimes.

[[nodiscard]] Floats transpose(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats add_identity(Floats const& input,
                                  float factor,
                                  std::source_location issued_at);

[[nodiscard]] Floats concat(std::vector<Floats> const& blocks, std::source_location issued_at);
[[nodiscard]] std::vector<std::optional<Floats>> split(Floats const& packed,
                                                       std::span<std::int64_t const> widths,
                                                       std::vector<bool> const& wanted,
                                                       std::source_location issued_at);

/// Splits like split(), into one tensor [rows * width] that has the blocks one after the other.
[[nodiscard]] Floats unpacked(Floats const& packed,
                              std::span<std::int64_t const> widths,
                              std::source_location issued_at);

/// Computes a matrix product whose result is float32, or of the type of the operands.
[[nodiscard]] AnyTensor matmul(AnyTensor const& left,
                               AnyTensor const& right,
                               MatmulOptions const& options,
                               DType result,
                               std::source_location issued_at);
[[nodiscard]] AnyTensor matmul_left_gradient(AnyTensor const& left,
                                             AnyTensor const& right,
                                             MatmulOptions const& options,
                                             AnyTensor const& product_gradient,
                                             std::source_location issued_at);
[[nodiscard]] AnyTensor matmul_right_gradient(AnyTensor const& left,
                                              AnyTensor const& right,
                                              MatmulOptions const& options,
                                              AnyTensor const& product_gradient,
                                              std::source_location issued_at);

}  // namespace detail

/// Returns factor * op(left) · op(right), where op transposes or does nothing: [rows, inner],
/// [inner, columns] → [rows, columns]. If either operand is a batch, [batch, …], the product is a
/// batch. A matrix beside a batch is used for the whole batch.
///
/// T is float32, in the device's MatmulPrecision, or float16 or bfloat16, with sums in float32 that
/// are rounded once. CUDA uses cuBLASLt in one launch; the host uses Eigen. On CUDA, leftᵀ · right
/// with a long inner dimension and a small product is summed in parts, in a workspace, with two or
/// three launches. Deterministic; asynchronous; capture-safe. Throws std::invalid_argument if the
/// shapes do not fit.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> matmul(
    Tensor<T, R> const& left,
    Tensor<T, R> const& right,
    MatmulOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::matmul(left.any(), right.any(), options, dtype_of<T>, issued_at)};
}

/// Returns the gradient of matmul() with respect to its left operand, in that operand's shape. It
/// is rounded once, also if the operand was used for a whole batch.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> matmul_left_gradient(
    Tensor<T, R> const& left,
    Tensor<T, R> const& right,
    MatmulOptions const& options,
    Tensor<T, R> const& product_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::matmul_left_gradient(
              left.any(), right.any(), options, product_gradient.any(), issued_at)};
}
/// Returns the gradient of matmul() with respect to its right operand, in that operand's shape. It
/// is rounded once, also if the operand was used for a whole batch.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> matmul_right_gradient(
    Tensor<T, R> const& left,
    Tensor<T, R> const& right,
    MatmulOptions const& options,
    Tensor<T, R> const& product_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::matmul_right_gradient(
              left.any(), right.any(), options, product_gradient.any(), issued_at)};
}

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

/// Concatenates matrices side by side: block k [rows, width k] → [rows, sum of widths], float32.
/// One launch for up to 64 blocks. Asynchronous.
template <Runtime R>
[[nodiscard]] Tensor<float, R> concat(
    std::vector<Tensor<float, R>> const& blocks,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::concat(detail::untyped(blocks), issued_at));
}

/// Splits a packed tensor into blocks of the given widths, which must sum to the packed width: the
/// reverse of concat(). The result is null for a block that is not wanted. Throws
/// std::invalid_argument if the widths or the number of flags do not fit.
template <Runtime R>
[[nodiscard]] std::vector<std::optional<Tensor<float, R>>> split(
    Tensor<float, R> const& packed,
    std::span<std::int64_t const> widths,
    std::vector<bool> const& wanted,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::split(packed, widths, wanted, issued_at));
}

}  // namespace msstream::ops
