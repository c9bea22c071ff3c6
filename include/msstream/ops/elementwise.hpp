// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>

#include <cstdint>
#include <source_location>
#include <vector>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats add(std::vector<Floats> const& terms, std::source_location issued_at);
[[nodiscard]] Floats scale(Floats const& input, float factor, std::source_location issued_at);
[[nodiscard]] Floats sigmoid(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats sigmoid_gradient(Floats const& output,
                                      Floats const& output_gradient,
                                      std::source_location issued_at);
[[nodiscard]] Floats scaled_sum(Floats const& input, float factor, std::source_location issued_at);
[[nodiscard]] Floats sum(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats mean(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats broadcast(Floats const& value,
                               float factor,
                               Shape const& shape,
                               std::source_location issued_at);

}  // namespace detail

/// Returns the sum of tensors of one shape, added from first to last: groups of up to 32 terms in
/// float32, and the sums of the groups in float64. Asynchronous; deterministic. Throws
/// std::invalid_argument if there are no terms or if their shapes differ.
template <Runtime R>
[[nodiscard]] Tensor<float, R> add(
    std::vector<Tensor<float, R>> const& terms,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add(detail::untyped(terms), issued_at));
}

/// Returns factor * input.
template <Runtime R>
[[nodiscard]] Tensor<float, R> scale(
    Tensor<float, R> const& input,
    float factor,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::scale(input, factor, issued_at));
}

/// Returns 1 / (1 + exp(-input)), element by element.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sigmoid(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sigmoid(input, issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> sigmoid_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sigmoid_gradient(output, output_gradient, issued_at));
}

/// Returns factor * (sum of the elements), a scalar. Deterministic: float32 partial sums are added
/// in a fixed tree.
template <Runtime R>
[[nodiscard]] Tensor<float, R> scaled_sum(
    Tensor<float, R> const& input,
    float factor,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::scaled_sum(input, factor, issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sum(input, issued_at));
}
/// Returns the mean of the elements, a scalar. Throws std::invalid_argument if there are no
/// elements.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mean(input, issued_at));
}
/// Returns a tensor of the given shape whose elements are all factor * value: the gradient of
/// scaled_sum(). `value` is a scalar.
template <Runtime R>
[[nodiscard]] Tensor<float, R> broadcast(
    Tensor<float, R> const& value,
    float factor,
    Shape const& shape,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::broadcast(value, factor, shape, issued_at));
}

}  // namespace msstream::ops
