// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <source_location>

/// Differentiable forms of the matrix operations of ops/, with a GradientTape as first argument.
/// Each gives the result of the operation without a tape, and the tape records the backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable matmul(), transpose() and add_identity(), compiled once
// for all runtimes.

[[nodiscard]] Floats matmul(AnyTape& tape,
                            Floats const& left,
                            Floats const& right,
                            MatmulOptions const& options,
                            std::source_location issued_at);

[[nodiscard]] Floats transpose(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats add_identity(AnyTape& tape,
                                  Floats const& input,
                                  float factor,
                                  std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

template <class... Args>
[[nodiscard]] Floats matmul(NoTape, Args const&... args) {
  return matmul(args...);
}
template <class... Args>
[[nodiscard]] Floats transpose(NoTape, Args const&... args) {
  return transpose(args...);
}
template <class... Args>
[[nodiscard]] Floats add_identity(NoTape, Args const&... args) {
  return add_identity(args...);
}

}  // namespace detail

template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> matmul(
    Tape& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    MatmulOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::matmul(tape, left, right, options, issued_at));
}

template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> transpose(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::transpose(tape, input, issued_at));
}

template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> add_identity(
    Tape& tape,
    Tensor<float, R> const& input,
    float factor = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add_identity(tape, input, factor, issued_at));
}

}  // namespace msstream::ops
