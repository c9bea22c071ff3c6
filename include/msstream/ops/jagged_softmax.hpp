// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/jagged_softmax.hpp>
#include <msstream/ops/offset_policy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>

namespace msstream::ops {

namespace detail {

template <Runtime R>
void require_softmax_segments(char const* operation,
                              Shape const& values,
                              Tensor<std::int64_t, R> const& offsets) {
  require((values.rank() == 1 || values.rank() == 2) && offsets.shape().rank() == 1 &&
              offsets.count() >= 1,
          operation,
          ": values of shape ",
          values,
          ", offsets of shape ",
          offsets.shape(),
          "; expected [capacity] or [capacity, width], and [segments + 1]");
}

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
  auto const& shape = values.shape();
  detail::require_softmax_segments("jagged_softmax", shape, offsets);
  Tensor<float, R> output(values.device(), shape);
  auto written = writes(output);
  auto const report = detail::offset_report("jagged_softmax", *values.device(), policy, written);
  kernels::JaggedSoftmaxArgs const args{values.data(),
                                        offsets.data(),
                                        offsets.count() - 1,
                                        shape[0],
                                        shape.rank() == 2 ? shape[1] : 1,
                                        output.data(),
                                        report};
  issue(
      "jagged_softmax",
      reads(values, offsets),
      written,
      [args](auto stream) { kernels::jagged_softmax(stream, args); },
      {},
      issued_at);
  return output;
}

/// Returns the gradient of jagged_softmax(), from its output y and the gradient dy of the output: y
/// * (dy - sum of y * dy over the segment), 0 wherever y is 0. One launch.
template <Runtime R>
[[nodiscard]] Tensor<float, R> jagged_softmax_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    Tensor<std::int64_t, R> const& offsets,
    std::source_location issued_at = std::source_location::current()) {
  auto const& shape = output.shape();
  detail::require_softmax_segments("jagged_softmax_gradient", shape, offsets);
  require(output_gradient.shape() == shape,
          "jagged_softmax_gradient: ",
          shape,
          " and ",
          output_gradient.shape());
  Tensor<float, R> gradient(output.device(), shape);
  kernels::JaggedSoftmaxGradientArgs const args{output.data(),
                                                output_gradient.data(),
                                                offsets.data(),
                                                offsets.count() - 1,
                                                shape[0],
                                                shape.rank() == 2 ? shape[1] : 1,
                                                gradient.data()};
  issue(
      "jagged_softmax_gradient",
      reads(output, output_gradient, offsets),
      writes(gradient),
      [args](auto stream) { kernels::jagged_softmax_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

}  // namespace msstream::ops
