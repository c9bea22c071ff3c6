// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/top_k.hpp>
#include <msstream/ops/workspace.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/issue.hpp>

#include <algorithm>
#include <cstdint>
#include <source_location>

namespace msstream::ops {

/// The greatest elements of each row, and their columns.
template <Runtime R = DefaultRuntime>
struct TopK {
  Tensor<float, R> values;          ///< [rows, k], descending
  Tensor<std::int64_t, R> indices;  ///< [rows, k], the columns of the values
};

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
  auto const& shape = values.shape();
  require(shape.rank() == 2, "top_k: values of shape ", shape, "; expected [rows, columns]");
  require(k >= 0 && k <= std::min(shape[1], kernels::kMostTop),
          "top_k: the greatest ",
          k,
          " of rows of ",
          shape[1],
          " elements; expected at most all, and at most ",
          kernels::kMostTop);
  auto const& device = values.device();
  TopK<R> found{{device, {shape[0], k}}, {device, {shape[0], k}}};
  auto const workspace_bytes =
      kernels::top_k_workspace_bytes(detail::size_query<R>(*device), shape[1]);
  detail::Workspace<R> const workspace(device, workspace_bytes);
  kernels::TopKArgs const args{values.data(),
                               shape[0],
                               shape[1],
                               k,
                               found.values.data(),
                               found.indices.data(),
                               workspace.data()};
  issue(
      "top_k",
      reads(values),
      workspace.with(writes(found.values, found.indices)),
      [args](auto stream) { kernels::top_k(stream, args); },
      {},
      issued_at);
  return found;
}

/// Returns the gradient of top_k() with respect to its values [rows, columns], from the gradient of
/// the values found, [rows, k]. The gradient is 0 except in the columns found.
template <Runtime R>
[[nodiscard]] Tensor<float, R> top_k_gradient(
    Tensor<float, R> const& output_gradient,
    Tensor<std::int64_t, R> const& indices,
    std::int64_t columns,
    std::source_location issued_at = std::source_location::current()) {
  auto const& shape = output_gradient.shape();
  require(shape.rank() == 2 && indices.shape() == shape && columns >= shape[1],
          "top_k_gradient: gradient of shape ",
          shape,
          ", indices of shape ",
          indices.shape(),
          " and ",
          columns,
          " columns; expected twice [rows, k] and at least k");
  Tensor<float, R> gradient(output_gradient.device(), {shape[0], columns});
  kernels::TopKGradientArgs const args{
      output_gradient.data(), indices.data(), shape[0], columns, shape[1], gradient.data()};
  issue(
      "top_k_gradient",
      reads(output_gradient, indices),
      writes(gradient),
      [args](auto stream) { kernels::top_k_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

}  // namespace msstream::ops
