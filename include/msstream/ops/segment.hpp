// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/segment_common.hpp>
#include <msstream/ops/segment_ids.hpp>
#include <msstream/ops/segment_reduction.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>

namespace msstream::ops {

namespace detail {

template <Runtime R>
auto segments_by_offsets(char const* name,
                         Tensor<std::int64_t, R> const& offsets,
                         std::int64_t capacity) {
  auto uses = reads(offsets);
  return SegmentIssue<R, decltype(uses)>{name,
                                         {.form = kernels::SegmentForm::offsets,
                                          .segments = offsets.count() - 1,
                                          .capacity = capacity,
                                          .indices = offsets.data()},
                                         uses};
}

}  // namespace detail

/// Reduces consecutive rows: values [capacity, width] float32, offsets [segments + 1] int64 on the
/// device, ascending, the last ≤ capacity → [segments, width].
///
/// Segment s has the rows [offsets[s], offsets[s + 1]). Rows before offsets[0] and rows from the
/// last offset on are in no segment. A segment whose offsets do not ascend within [0, capacity] has
/// no rows, in the operation and in its gradient, and is reported as `policy` says. Segments never
/// share a row. `semantics` selects the result of an empty segment. A NaN in a segment makes every
/// reduction of it NaN, including a maximum and a minimum; infinity follows IEEE arithmetic.
/// Balanced over segments of any length. Deterministic: equal arguments give equal bits;
/// asynchronous; capture-safe. Throws std::invalid_argument for shapes that do not fit.
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_reduce(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentReduction reduction,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  require(values.shape().rank() == 2 && offsets.shape().rank() == 1 && offsets.count() >= 1,
          "segment_reduce: values of shape ",
          values.shape(),
          ", offsets of shape ",
          offsets.shape(),
          "; expected [capacity, width] and [segments + 1]");
  return detail::reduce_segments(
      detail::segments_by_offsets("segment_reduce", offsets, values.shape()[0]),
      values,
      reduction,
      semantics,
      true,
      issued_at,
      policy);
}

/// Returns the gradient of segment_reduce() with respect to its value rows: output_gradient
/// [segments, width] → [capacity, width]. Rows in no segment get 0.
///
/// `forward` is the number of value rows for sum, mean and sqrtn, and {values, reduced} for max,
/// min and prod. Elements that equal a maximum or minimum share its gradient equally; NaN equals
/// NaN. An element's gradient of a product is the product of the other elements times the output's
/// gradient, exact where one of them is 0. Deterministic; asynchronous; capture-safe.
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_reduce_gradient(
    Tensor<float, R> const& output_gradient,
    Tensor<std::int64_t, R> const& offsets,
    std::type_identity_t<SegmentForward<R>> const& forward,
    SegmentReduction reduction,
    std::source_location issued_at = std::source_location::current()) {
  require(offsets.shape().rank() == 1 && offsets.count() >= 1 && forward.capacity >= 0,
          "segment_reduce_gradient: offsets of shape ",
          offsets.shape(),
          " for ",
          forward.capacity,
          " value rows; expected [segments + 1] and 0 rows or more");
  return detail::segment_gradient(
      detail::segments_by_offsets("segment_reduce_gradient", offsets, forward.capacity),
      output_gradient,
      forward,
      reduction,
      issued_at);
}

/// Returns the offsets [segments + 1] of ascending segment ids, int32 or int64 [capacity]. Ids
/// outside [0, segments) belong to no segment.
template <Runtime R, Element Id>
[[nodiscard]] Tensor<std::int64_t, R> segment_offsets(
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::source_location issued_at = std::source_location::current()) {
  auto const layout = detail::segments_by_ids(
      "segment_offsets", kernels::SegmentForm::sorted_ids, sorted_ids, segments, {});
  Tensor<std::int64_t, R> offsets(sorted_ids.device(), {segments + 1});
  kernels::SegmentOffsetsArgs const args{layout.layout, offsets.data()};
  issue(
      "segment_offsets",
      layout.layout_reads,
      writes(offsets),
      [args](auto stream) { kernels::segment_offsets(stream, args); },
      {},
      issued_at);
  return offsets;
}

/// The functions segment_sum() to segment_prod() are segment_reduce() with one reduction each.
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_sum(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return segment_reduce(values, offsets, SegmentReduction::sum, semantics, {}, issued_at);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_mean(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return segment_reduce(values, offsets, SegmentReduction::mean, semantics, {}, issued_at);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_sqrtn(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return segment_reduce(values, offsets, SegmentReduction::sqrtn, semantics, {}, issued_at);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_max(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return segment_reduce(values, offsets, SegmentReduction::max, semantics, {}, issued_at);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_min(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return segment_reduce(values, offsets, SegmentReduction::min, semantics, {}, issued_at);
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_prod(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return segment_reduce(values, offsets, SegmentReduction::prod, semantics, {}, issued_at);
}

}  // namespace msstream::ops
