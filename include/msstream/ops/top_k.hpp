// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <cstdint>
#include <source_location>
#include <utility>

namespace msstream::ops {

/// The greatest elements of each row, and their columns.
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

// The bodies of the functions below.

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
