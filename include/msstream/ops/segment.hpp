// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/kernels/segment.hpp>
#include <msstream/ops/workspace.hpp>

#include <cstdint>

namespace msstream::ops {

/// Sums or means of consecutive rows: values [capacity, width], offsets [segments + 1] on the
/// device → [segments, width]. 0 for an empty segment. Balanced over segments of any length.
/// Deterministic; asynchronous; capture-safe.
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_reduce(Tensor<float, R> const& values,
                                              Tensor<std::int64_t, R> const& offsets,
                                              Pooling pooling) {
  require(values.shape().rank() == 2 && offsets.shape().rank() == 1 && offsets.count() >= 1,
          "segment_reduce: values of shape ",
          values.shape(),
          ", offsets of shape ",
          offsets.shape(),
          "; expected [capacity, width] and [segments + 1]");
  auto const& device = values.device();
  std::int64_t const capacity = values.shape()[0];
  std::int64_t const width = values.shape()[1];
  std::int64_t const segments = offsets.count() - 1;
  Tensor<float, R> reduced(device, {segments, width});
  auto const workspace_bytes = kernels::segment_reduce_workspace_bytes(
      detail::size_query(*device), capacity, segments, width);
  detail::Workspace<R> const workspace(device, workspace_bytes);
  kernels::SegmentArgs const args{.values = values.data(),
                                  .capacity = capacity,
                                  .width = width,
                                  .offsets = offsets.data(),
                                  .segments = segments,
                                  .pooling = pooling,
                                  .output = reduced.data(),
                                  .workspace = workspace.data()};
  issue("segment_reduce",
        reads(values, offsets),
        workspace.with(writes(reduced)),
        [args](auto stream) { kernels::segment_reduce(stream, args); });
  return reduced;
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_sum(Tensor<float, R> const& values,
                                           Tensor<std::int64_t, R> const& offsets) {
  return segment_reduce(values, offsets, Pooling::sum);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_mean(Tensor<float, R> const& values,
                                            Tensor<std::int64_t, R> const& offsets) {
  return segment_reduce(values, offsets, Pooling::mean);
}

/// The gradient of segment_reduce with respect to its `capacity` value rows; 0 for rows in no
/// segment.
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_reduce_gradient(Tensor<float, R> const& output_gradient,
                                                       Tensor<std::int64_t, R> const& offsets,
                                                       std::int64_t capacity,
                                                       Pooling pooling) {
  require(output_gradient.shape().rank() == 2 && offsets.shape().rank() == 1 &&
              output_gradient.shape()[0] == offsets.count() - 1 && capacity >= 0,
          "segment_reduce_gradient: gradient of shape ",
          output_gradient.shape(),
          " for offsets of shape ",
          offsets.shape(),
          " and a capacity of ",
          capacity);
  Tensor<float, R> gradient(output_gradient.device(), {capacity, output_gradient.shape()[1]});
  kernels::SegmentGradientArgs const args{.output_gradient = output_gradient.data(),
                                          .offsets = offsets.data(),
                                          .segments = offsets.count() - 1,
                                          .capacity = capacity,
                                          .width = output_gradient.shape()[1],
                                          .pooling = pooling,
                                          .value_gradients = gradient.data()};
  issue("segment_reduce_gradient",
        reads(output_gradient, offsets),
        writes(gradient),
        [args](auto stream) { kernels::segment_reduce_gradient(stream, args); });
  return gradient;
}

/// Offsets [segments + 1] of ascending segment ids; ids outside [0, segments) belong to no segment.
template <Runtime R>
[[nodiscard]] Tensor<std::int64_t, R> segment_offsets(Tensor<std::int64_t, R> const& sorted_ids,
                                                      std::int64_t segments) {
  require(segments >= 0, "segment_offsets: ", segments, " segments");
  Tensor<std::int64_t, R> offsets(sorted_ids.device(), {segments + 1});
  kernels::SegmentOffsetsArgs const args{
      sorted_ids.data(), sorted_ids.count(), nullptr, segments, offsets.data()};
  issue("segment_offsets", reads(sorted_ids), writes(offsets), [args](auto stream) {
    kernels::segment_offsets(stream, args);
  });
  return offsets;
}

}  // namespace msstream::ops
