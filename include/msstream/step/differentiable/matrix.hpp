// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

/// Differentiable forms of the matrix operations of ops/, with a GradientTape as first argument.
/// Each gives the result of the operation without a tape, and the tape records the backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable matmul(), transpose(), add_identity() and split(),
// compiled once for all runtimes.

/// Computes matmul() of operands of any type. `tape` is null for NoTape.
[[nodiscard]] AnyTensor matmul(AnyTape* tape,
                               AnyTensor const& left,
                               AnyTensor const& right,
                               MatmulOptions const& options,
                               std::source_location issued_at);

[[nodiscard]] Floats transpose(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats add_identity(AnyTape& tape,
                                  Floats const& input,
                                  float factor,
                                  std::source_location issued_at);
[[nodiscard]] std::vector<Floats> split(AnyTape& tape,
                                        Floats const& packed,
                                        std::span<std::int64_t const> widths,
                                        std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

template <class... Args>
[[nodiscard]] Floats transpose(NoTape, Args const&... args) {
  return transpose(args...);
}
template <class... Args>
[[nodiscard]] Floats add_identity(NoTape, Args const&... args) {
  return add_identity(args...);
}
[[nodiscard]] std::vector<Floats> split(NoTape,
                                        Floats const& packed,
                                        std::span<std::int64_t const> widths,
                                        std::source_location issued_at);

}  // namespace detail

/// Computes ops::matmul() of the operands' type, which their gradients have too; the tape records
/// the backward.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> matmul(
    Tape& tape,
    Tensor<T, R> const& left,
    Tensor<T, R> const& right,
    MatmulOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::matmul(detail::tape_or_null(tape), left.any(), right.any(), options, issued_at)};
}

/// Returns ops::transpose(); the gradient is the transpose of the output's.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> transpose(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::transpose(tape, input, issued_at));
}

/// Returns ops::add_identity(); the gradient of the input is that of the output.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> add_identity(
    Tape& tape,
    Tensor<float, R> const& input,
    float factor = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add_identity(tape, input, factor, issued_at));
}

/// Splits a matrix into blocks of columns of the given widths, which must sum to its width: the
/// reverse of concat(). The tape records the backward, which needs no gradient of every block. The
/// blocks are views of one tensor. One launch.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] std::vector<Tensor<float, R>> split(
    Tape& tape,
    Tensor<float, R> const& packed,
    std::vector<std::int64_t> const& widths,
    std::source_location issued_at = std::source_location::current()) {
  std::vector<Tensor<float, R>> blocks;
  for (auto& block : detail::split(tape, packed, widths, issued_at)) {
    blocks.push_back(detail::typed<R>(std::move(block)));
  }
  return blocks;
}

}  // namespace msstream::ops
