// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/segment_common.hpp>
#include <msstream/ops/segment_ids.hpp>
#include <msstream/ops/segment_reduction.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats segment_reduce(Floats const& values,
                                    TensorOf<std::int64_t> const& offsets,
                                    SegmentReduction reduction,
                                    SegmentSemantics semantics,
                                    std::type_identity_t<OffsetPolicy<AnyRuntime>> const& policy,
                                    std::source_location issued_at);
[[nodiscard]] Floats segment_reduce_gradient(
    Floats const& output_gradient,
    TensorOf<std::int64_t> const& offsets,
    std::type_identity_t<SegmentForward<AnyRuntime>> const& forward,
    SegmentReduction reduction,
    std::source_location issued_at);

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
  return detail::typed<R>(
      detail::segment_reduce(values, offsets, reduction, semantics, policy, issued_at));
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
  return detail::typed<R>(
      detail::segment_reduce_gradient(output_gradient, offsets, forward, reduction, issued_at));
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

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats segment_sum(Floats const& values,
                                 TensorOf<std::int64_t> const& offsets,
                                 SegmentSemantics semantics,
                                 std::source_location issued_at);
[[nodiscard]] Floats segment_mean(Floats const& values,
                                  TensorOf<std::int64_t> const& offsets,
                                  SegmentSemantics semantics,
                                  std::source_location issued_at);
[[nodiscard]] Floats segment_sqrtn(Floats const& values,
                                   TensorOf<std::int64_t> const& offsets,
                                   SegmentSemantics semantics,
                                   std::source_location issued_at);
[[nodiscard]] Floats segment_max(Floats const& values,
                                 TensorOf<std::int64_t> const& offsets,
                                 SegmentSemantics semantics,
                                 std::source_location issued_at);
[[nodiscard]] Floats segment_min(Floats const& values,
                                 TensorOf<std::int64_t> const& offsets,
                                 SegmentSemantics semantics,
                                 std::source_location issued_at);
[[nodiscard]] Floats segment_prod(Floats const& values,
                                  TensorOf<std::int64_t> const& offsets,
                                  SegmentSemantics semantics,
                                  std::source_location issued_at);

}  // namespace detail

/// The functions segment_sum() to segment_prod() are segment_reduce() with one reduction each.
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_sum(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::segment_sum(values, offsets, semantics, issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_mean(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::segment_mean(values, offsets, semantics, issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_sqrtn(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::segment_sqrtn(values, offsets, semantics, issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_max(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::segment_max(values, offsets, semantics, issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_min(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::segment_min(values, offsets, semantics, issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_prod(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::segment_prod(values, offsets, semantics, issued_at));
}

}  // namespace msstream::ops
