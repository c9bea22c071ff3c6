// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

/// Differentiable forms of the element-wise operations of ops/, with a GradientTape as first
/// argument. Each gives the result of the operation without a tape, and the tape records the
/// backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable element-wise operations, compiled once for all
// runtimes.

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

[[nodiscard]] Floats square(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats sqrt(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats abs(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats relu(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats exp(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats log(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats sqrt_abs(AnyTape& tape,
                              Floats const& input,
                              float epsilon,
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

template <Runtime R>
[[nodiscard]] Tensor<float, R> square(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::square(tape, input, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sqrt(tape, input, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> abs(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::abs(tape, input, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> relu(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::relu(tape, input, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> exp(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::exp(tape, input, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> log(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::log(tape, input, issued_at));
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt_abs(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    float epsilon,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sqrt_abs(tape, input, epsilon, issued_at));
}

}  // namespace msstream::ops
