// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

/// The operations of ops/arithmetic.hpp with a tape as first argument. The results are the same;
/// the tape records the backward.
namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats add(AnyTape& tape,
                         Floats const& left,
                         Floats const& right,
                         std::source_location issued_at);
[[nodiscard]] Floats subtract(AnyTape& tape,
                              Floats const& left,
                              Floats const& right,
                              std::source_location issued_at);
[[nodiscard]] Floats multiply(AnyTape& tape,
                              Floats const& left,
                              Floats const& right,
                              std::source_location issued_at);
[[nodiscard]] Floats divide(AnyTape& tape,
                            Floats const& left,
                            Floats const& right,
                            std::source_location issued_at);

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> add(
    GradientTape<R>& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add(tape, left, right, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> subtract(
    GradientTape<R>& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::subtract(tape, left, right, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> multiply(
    GradientTape<R>& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::multiply(tape, left, right, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> divide(
    GradientTape<R>& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::divide(tape, left, right, issued_at));
}

}  // namespace msstream::ops
