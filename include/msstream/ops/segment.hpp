// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/id_element.hpp>
#include <msstream/ops/offset_policy.hpp>
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
                                    OffsetPolicy<AnyRuntime> const& policy,
                                    std::source_location issued_at);
[[nodiscard]] Floats segment_reduce_gradient(Floats const& output_gradient,
                                             TensorOf<std::int64_t> const& offsets,
                                             SegmentForward<AnyRuntime> const& forward,
                                             SegmentReduction reduction,
                                             std::source_location issued_at);
[[nodiscard]] TensorOf<std::int64_t> segment_offsets(AnyTensor const& sorted_ids,
                                                     std::int64_t segments,
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
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<std::int64_t, R> segment_offsets(
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::segment_offsets(sorted_ids.any(), segments, issued_at));
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
