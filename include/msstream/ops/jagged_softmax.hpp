// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/offset_policy.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats jagged_softmax(Floats const& values,
                                    TensorOf<std::int64_t> const& offsets,
                                    OffsetPolicy<AnyRuntime> const& policy,
                                    std::source_location issued_at);
[[nodiscard]] Floats jagged_softmax_gradient(Floats const& output,
                                             Floats const& output_gradient,
                                             TensorOf<std::int64_t> const& offsets,
                                             std::source_location issued_at);

}  // namespace detail

/// Returns the softmax of each column within each segment, for float32 values [capacity] or
/// [capacity, width]. Segment s has the rows [offsets[s], offsets[s + 1]); the last offset is at
/// most the capacity. Rows of no segment get 0. A segment whose offsets do not ascend within [0,
/// capacity] has no rows, in the operation and in its gradient, and is reported as `policy` says.
/// Segments never share a row.
///
/// The largest element is subtracted first, so that nothing overflows. As in PyTorch, a column of a
/// segment is all NaN if it holds NaN or +infinity, or nothing but -infinity. Deterministic; one
/// launch, which assigns threads to a segment by its length; asynchronous; capture-safe. Throws
/// std::invalid_argument for bad shapes.
template <Runtime R>
[[nodiscard]] Tensor<float, R> jagged_softmax(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::jagged_softmax(values, offsets, policy, issued_at));
}

/// Returns the gradient of jagged_softmax(), from its output y and the gradient dy of the output: y
/// * (dy - sum of y * dy over the segment), 0 wherever y is 0. One launch.
template <Runtime R>
[[nodiscard]] Tensor<float, R> jagged_softmax_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    Tensor<std::int64_t, R> const& offsets,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::jagged_softmax_gradient(output, output_gradient, offsets, issued_at));
}

}  // namespace msstream::ops
