// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

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

// The forms for NoTape, which are the operations without a tape.

[[nodiscard]] inline Floats add(NoTape,
                                Floats const& left,
                                Floats const& right,
                                std::source_location issued_at) {
  return add(left, right, issued_at);
}
template <class... Args>
[[nodiscard]] Floats subtract(NoTape, Args const&... args) {
  return subtract(args...);
}
template <class... Args>
[[nodiscard]] Floats multiply(NoTape, Args const&... args) {
  return multiply(args...);
}
template <class... Args>
[[nodiscard]] Floats divide(NoTape, Args const&... args) {
  return divide(args...);
}
template <class... Args>
[[nodiscard]] Floats square(NoTape, Args const&... args) {
  return square(args...);
}
template <class... Args>
[[nodiscard]] Floats sqrt(NoTape, Args const&... args) {
  return sqrt(args...);
}
template <class... Args>
[[nodiscard]] Floats abs(NoTape, Args const&... args) {
  return abs(args...);
}
template <class... Args>
[[nodiscard]] Floats relu(NoTape, Args const&... args) {
  return relu(args...);
}
template <class... Args>
[[nodiscard]] Floats exp(NoTape, Args const&... args) {
  return exp(args...);
}
template <class... Args>
[[nodiscard]] Floats log(NoTape, Args const&... args) {
  return log(args...);
}
template <class... Args>
[[nodiscard]] Floats sqrt_abs(NoTape, Args const&... args) {
  return sqrt_abs(args...);
}

}  // namespace detail

/// Returns left + right, which broadcast as in ops::add(); both get gradients of their shapes.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> add(
    Tape& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add(tape, left, right, issued_at));
}

/// Returns left - right, which broadcast as in ops::add(); both get gradients of their shapes.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> subtract(
    Tape& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::subtract(tape, left, right, issued_at));
}

/// Returns left * right, element by element, broadcast as in ops::add(); both get gradients.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> multiply(
    Tape& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::multiply(tape, left, right, issued_at));
}

/// Returns left / right, element by element, broadcast as in ops::add(); both get gradients.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> divide(
    Tape& tape,
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::divide(tape, left, right, issued_at));
}

/// Returns the square of each element; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> square(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::square(tape, input, issued_at));
}

/// Returns ops::sqrt() of each element; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> sqrt(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sqrt(tape, input, issued_at));
}

/// Returns the absolute value of each element; the gradient at 0 is 0.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> abs(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::abs(tape, input, issued_at));
}

/// Returns max(x, 0) for each element x; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> relu(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::relu(tape, input, issued_at));
}

/// Returns e^x for each element x; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> exp(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::exp(tape, input, issued_at));
}

/// Returns the natural logarithm of each element; the gradient is that of the output / input.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> log(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::log(tape, input, issued_at));
}

/// Returns sqrt(|x| + epsilon) for each element x; the gradient at 0 is 0.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> sqrt_abs(
    Tape& tape,
    Tensor<float, R> const& input,
    float epsilon,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sqrt_abs(tape, input, epsilon, issued_at));
}

}  // namespace msstream::ops
