// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/dense.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/step/differentiable/activation.hpp>
#include <msstream/step/differentiable/elementwise.hpp>
#include <msstream/step/differentiable/embedding.hpp>
#include <msstream/step/differentiable/layers.hpp>
#include <msstream/step/differentiable/loss.hpp>
#include <msstream/step/differentiable/matrix.hpp>
#include <msstream/step/differentiable/mixed.hpp>
#include <msstream/step/differentiable/reduce.hpp>
#include <msstream/step/differentiable/rows.hpp>
#include <msstream/step/differentiable/segment.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <initializer_list>
#include <source_location>
#include <vector>

/// Differentiable forms of operations of ops/, with a GradientTape as first argument. Each gives
/// the result of the operation without a tape, and the tape records the backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable operations of this header, from concat() to
// mean(), compiled once for all runtimes.

[[nodiscard]] Floats concat(AnyTape& tape,
                            std::vector<Floats> blocks,
                            std::source_location issued_at);
[[nodiscard]] Floats add(AnyTape& tape, std::vector<Floats> terms, std::source_location issued_at);
[[nodiscard]] Floats scale(AnyTape& tape,
                           Floats const& input,
                           float factor,
                           std::source_location issued_at);
[[nodiscard]] Floats sigmoid(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats sum(AnyTape& tape, Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats mean(AnyTape& tape, Floats const& input, std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

[[nodiscard]] inline Floats concat(NoTape,
                                   std::vector<Floats> const& blocks,
                                   std::source_location issued_at) {
  return concat(blocks, issued_at);
}
[[nodiscard]] inline Floats add(NoTape,
                                std::vector<Floats> const& terms,
                                std::source_location issued_at) {
  return add(terms, issued_at);
}
template <class... Args>
[[nodiscard]] Floats scale(NoTape, Args const&... args) {
  return scale(args...);
}
template <class... Args>
[[nodiscard]] Floats sigmoid(NoTape, Args const&... args) {
  return sigmoid(args...);
}
[[nodiscard]] inline Floats sum(NoTape, Floats const& input, std::source_location issued_at) {
  return sum(input, issued_at);
}
[[nodiscard]] inline Floats mean(NoTape, Floats const& input, std::source_location issued_at) {
  return mean(input, issued_at);
}

}  // namespace detail

/// Returns the blocks side by side, as ops::concat(); each block gets its columns of the gradient.
template <Runtime R>
[[nodiscard]] Tensor<float, R> concat(
    GradientTape<R>& tape,
    std::vector<Tensor<float, R>> const& blocks,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::concat(tape, detail::untyped(blocks), issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> concat(
    NoTape tape,
    std::vector<Tensor<float, R>> const& blocks,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::concat(tape, detail::untyped(blocks), issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> concat(
    NoTape tape,
    std::initializer_list<Tensor<float, R>> blocks,
    std::source_location issued_at = std::source_location::current()) {
  return concat(tape, std::vector<Tensor<float, R>>(blocks), issued_at);
}

/// Returns the sum of tensors of one shape; each term gets the gradient of the output.
template <Runtime R>
[[nodiscard]] Tensor<float, R> add(
    GradientTape<R>& tape,
    std::vector<Tensor<float, R>> const& terms,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add(tape, detail::untyped(terms), issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> add(
    NoTape tape,
    std::vector<Tensor<float, R>> const& terms,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add(tape, detail::untyped(terms), issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> add(
    NoTape tape,
    std::initializer_list<Tensor<float, R>> terms,
    std::source_location issued_at = std::source_location::current()) {
  return add(tape, std::vector<Tensor<float, R>>(terms), issued_at);
}

/// Returns factor * input; the gradient is multiplied by the factor, too.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> scale(
    Tape& tape,
    Tensor<float, R> const& input,
    float factor,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::scale(tape, input, factor, issued_at));
}

/// Returns 1 / (1 + e^-x) for each element x; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> sigmoid(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sigmoid(tape, input, issued_at));
}

/// Returns the sum of all elements, a scalar; each element gets its gradient.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> sum(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sum(tape, input, issued_at));
}

/// Returns the mean of all elements, a scalar; each gets a gradient of that of the mean / count.
/// Throws std::invalid_argument if there are no elements.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> mean(
    Tape& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mean(tape, input, issued_at));
}

}  // namespace msstream::ops
