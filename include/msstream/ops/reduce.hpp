// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>

namespace msstream::ops {

struct ReduceOptions {
  bool keep_dimension = false;  ///< keep the reduced dimension, with extent 1
};

namespace detail {

/// Returns the dimension of `shape` that `axis` selects. As in NumPy, a negative axis counts from
/// the end: -1 is the last dimension. Throws std::invalid_argument if there is no such dimension.
[[nodiscard]] std::size_t require_axis(char const* operation,
                                       Shape const& shape,
                                       std::int64_t axis);

// The implementations of sum(), mean(), max() and min() over an axis, of their gradients and of
// sum_to(), compiled once for all runtimes.

[[nodiscard]] Floats sum(Floats const& input,
                         std::int64_t axis,
                         ReduceOptions options,
                         std::source_location issued_at);
[[nodiscard]] Floats mean(Floats const& input,
                          std::int64_t axis,
                          ReduceOptions options,
                          std::source_location issued_at);
[[nodiscard]] Floats max(Floats const& input,
                         std::int64_t axis,
                         ReduceOptions options,
                         std::source_location issued_at);
[[nodiscard]] Floats min(Floats const& input,
                         std::int64_t axis,
                         ReduceOptions options,
                         std::source_location issued_at);
[[nodiscard]] Floats sum_gradient(Floats const& output_gradient,
                                  Shape const& shape,
                                  std::int64_t axis,
                                  float factor,
                                  std::source_location issued_at);
[[nodiscard]] Floats extremum_gradient(Floats const& input,
                                       Floats const& output,
                                       Floats const& output_gradient,
                                       std::int64_t axis,
                                       std::source_location issued_at);
[[nodiscard]] Floats sum_to(Floats const& gradient,
                            Shape const& shape,
                            float factor,
                            std::source_location issued_at);

}  // namespace detail

/// Returns the sum over one axis of a float32 tensor of any shape. A negative axis counts from the
/// last dimension. The sum over an empty axis is 0. Asynchronous; capture-safe; deterministic: the
/// order of the additions depends on the shape alone. Throws std::invalid_argument if there is no
/// such axis.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sum(input, axis, options, issued_at));
}
/// Returns the mean over one axis of a float32 tensor of any shape. `axis` has the meaning that it
/// has for sum(). Throws std::invalid_argument if there is no such axis, or if it is empty.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mean(input, axis, options, issued_at));
}
/// Returns the largest element along one axis of a float32 tensor, or NaN if there is a NaN. Throws
/// std::invalid_argument if there is no such axis, or if it is empty.
template <Runtime R>
[[nodiscard]] Tensor<float, R> max(
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::max(input, axis, options, issued_at));
}
/// Returns the smallest element along one axis of a float32 tensor, or NaN if there is a NaN.
/// Throws std::invalid_argument if there is no such axis, or if it is empty.
template <Runtime R>
[[nodiscard]] Tensor<float, R> min(
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::min(input, axis, options, issued_at));
}

/// Returns factor * output_gradient, repeated along `axis` to `shape`: the gradient of a sum over
/// that axis with a factor of 1, or of a mean with a factor of 1 / extent. The output's gradient
/// may have or lack the reduced dimension.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sum_gradient(
    Tensor<float, R> const& output_gradient,
    Shape const& shape,
    std::int64_t axis,
    float factor = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sum_gradient(output_gradient, shape, axis, factor, issued_at));
}

/// Returns the gradient of max() or min() over `axis`, from its input, its output and the output's
/// gradient. All elements that equal the output share its gradient equally; NaN equals NaN. Two
/// launches, and one more if few long axes are counted in chunks.
template <Runtime R>
[[nodiscard]] Tensor<float, R> extremum_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::int64_t axis,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::extremum_gradient(input, output, output_gradient, axis, issued_at));
}

/// Returns factor * (the sum of `gradient` over the dimensions in which a tensor of `shape` was
/// repeated to gradient's shape): the gradient of a broadcast operand. At most two reductions. If
/// nothing was repeated and factor is 1, returns the same elements without a launch. Deterministic.
/// Throws std::invalid_argument unless `shape` broadcasts to gradient's shape.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sum_to(
    Tensor<float, R> const& gradient,
    Shape const& shape,
    float factor = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sum_to(gradient, shape, factor, issued_at));
}

/// The result of top_k(): the greatest elements of each row, and their columns.
template <Runtime R = DefaultRuntime>
struct TopK {
  Tensor<float, R> values;          ///< [rows, k], descending
  Tensor<std::int64_t, R> indices;  ///< [rows, k], the columns of the values
};

namespace detail {

template <Runtime R>
[[nodiscard]] TopK<R> typed(TopK<AnyRuntime> found) {
  return {typed<R>(std::move(found.values)), typed<R>(std::move(found.indices))};
}

// The implementations of top_k() and top_k_gradient(), compiled once for all runtimes.

[[nodiscard]] TopK<AnyRuntime> top_k(Floats const& values,
                                     std::int64_t k,
                                     std::source_location issued_at);
[[nodiscard]] Floats top_k_gradient(Floats const& output_gradient,
                                    TensorOf<std::int64_t> const& indices,
                                    std::int64_t columns,
                                    std::source_location issued_at);

}  // namespace detail

/// Returns the k greatest elements of each row of `values` [rows, columns] float32, in descending
/// order. k is at most 256 and at most the number of columns.
///
/// If elements are equal, the one in the lower column comes first; -0 equals +0; as in PyTorch, NaN
/// is greater than anything. Deterministic; one launch; asynchronous; capture-safe. Throws
/// std::invalid_argument for bad shapes and for a k that is out of range.
template <Runtime R>
[[nodiscard]] TopK<R> top_k(Tensor<float, R> const& values,
                            std::int64_t k,
                            std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::top_k(values, k, issued_at));
}

/// Returns the gradient of top_k() with respect to its values [rows, columns], from the gradient of
/// the values found, [rows, k]. The gradient is 0 except in the columns found.
template <Runtime R>
[[nodiscard]] Tensor<float, R> top_k_gradient(
    Tensor<float, R> const& output_gradient,
    Tensor<std::int64_t, R> const& indices,
    std::int64_t columns,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::top_k_gradient(output_gradient, indices, columns, issued_at));
}

}  // namespace msstream::ops
