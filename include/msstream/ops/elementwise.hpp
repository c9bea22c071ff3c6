// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>

#include <cstdint>
#include <source_location>
#include <vector>

namespace msstream::ops {

namespace detail {

// The implementations of add(), scale(), sigmoid(), sigmoid_gradient(), scaled_sum(), sum(), mean()
// and broadcast() of float32 tensors, compiled once for all runtimes.

[[nodiscard]] Floats add(std::vector<Floats> const& terms, std::source_location issued_at);
[[nodiscard]] Floats scale(Floats const& input, float factor, std::source_location issued_at);
/// Writes scale() to a tensor with as many elements, which is not the input.
void scale_into(Floats const& input,
                float factor,
                Floats const& output,
                std::source_location issued_at);
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

/// Returns factor * input, element by element.
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
/// Returns the gradient of sigmoid(), from its output and the gradient of the output.
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
/// Returns the sum of all elements, a scalar, added as by scaled_sum().
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

/// Functions that are applied to each element of a float32 tensor of any shape. Each function and
/// each gradient is one launch. Asynchronous; capture-safe; deterministic.
namespace msstream::ops {

namespace detail {

// The implementations of the functions of each element, from square() to log(), and of their
// gradients, compiled once for all runtimes.

[[nodiscard]] Floats square(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats square_gradient(Floats const& input,
                                     Floats const& output_gradient,
                                     std::source_location issued_at);
[[nodiscard]] Floats sqrt(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats sqrt_gradient(Floats const& output,
                                   Floats const& output_gradient,
                                   std::source_location issued_at);
[[nodiscard]] Floats abs(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats abs_gradient(Floats const& input,
                                  Floats const& output_gradient,
                                  std::source_location issued_at);
[[nodiscard]] Floats sqrt_abs(Floats const& input, float epsilon, std::source_location issued_at);
[[nodiscard]] Floats sqrt_abs_gradient(Floats const& input,
                                       float epsilon,
                                       Floats const& output_gradient,
                                       std::source_location issued_at);
[[nodiscard]] Floats relu(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats relu_gradient(Floats const& output,
                                   Floats const& output_gradient,
                                   std::source_location issued_at);
[[nodiscard]] Floats exp(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats exp_gradient(Floats const& output,
                                  Floats const& output_gradient,
                                  std::source_location issued_at);
[[nodiscard]] Floats log(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats log_gradient(Floats const& input,
                                  Floats const& output_gradient,
                                  std::source_location issued_at);

}  // namespace detail

/// Returns input * input, element by element.
template <Runtime R>
[[nodiscard]] Tensor<float, R> square(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::square(input, issued_at));
}
/// Returns the gradient of square(): 2 * input * output_gradient.
template <Runtime R>
[[nodiscard]] Tensor<float, R> square_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::square_gradient(input, output_gradient, issued_at));
}

/// Returns the square root of each element; NaN for a negative element.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sqrt(input, issued_at));
}
/// Returns the gradient of sqrt(), from its output and the output's gradient. An element is
/// infinite or NaN where the output is 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sqrt_gradient(output, output_gradient, issued_at));
}

/// Returns |input|, element by element. The derivative at 0 is taken as 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> abs(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::abs(input, issued_at));
}
/// Returns the gradient of abs(): that of the output with the sign of the input; 0 at 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> abs_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::abs_gradient(input, output_gradient, issued_at));
}

/// Returns sqrt(|input| + epsilon), element by element. The derivative at 0 is taken as 0. Throws
/// std::invalid_argument unless epsilon is finite and not negative.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt_abs(
    Tensor<float, R> const& input,
    float epsilon,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sqrt_abs(input, epsilon, issued_at));
}
/// Returns the gradient of sqrt_abs(), from its input and the same epsilon; 0 at 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sqrt_abs_gradient(
    Tensor<float, R> const& input,
    float epsilon,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sqrt_abs_gradient(input, epsilon, output_gradient, issued_at));
}

/// Returns max(input, 0), element by element; NaN stays NaN. The derivative at 0 is taken as 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> relu(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::relu(input, issued_at));
}
/// Returns the gradient of relu(), from its output and the output's gradient.
template <Runtime R>
[[nodiscard]] Tensor<float, R> relu_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::relu_gradient(output, output_gradient, issued_at));
}

/// Returns e to the power of each element of the input.
template <Runtime R>
[[nodiscard]] Tensor<float, R> exp(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::exp(input, issued_at));
}
/// Returns the gradient of exp(), from its output and the output's gradient.
template <Runtime R>
[[nodiscard]] Tensor<float, R> exp_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::exp_gradient(output, output_gradient, issued_at));
}

/// Returns the natural logarithm of each element; -infinity for 0, and NaN for a negative element.
template <Runtime R>
[[nodiscard]] Tensor<float, R> log(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::log(input, issued_at));
}
/// Returns the gradient of log(): output_gradient / input.
template <Runtime R>
[[nodiscard]] Tensor<float, R> log_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::log_gradient(input, output_gradient, issued_at));
}

}  // namespace msstream::ops
