// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/segment.hpp>
#include <msstream/ops/segment_reduction.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>

/// The operations of ops/segment.hpp with a tape as first argument. The results are the same; the
/// tape records the backward.
namespace msstream::ops {

namespace detail {

/// Returns what the backward needs of the forward. For sums, means and sqrtn that is only the
/// number of rows, so that no tensor is kept until the backward.
template <Runtime R>
[[nodiscard]] SegmentForward<R> segment_forward(Tensor<float, R> const& values,
                                                Tensor<float, R> const& reduced,
                                                SegmentReduction reduction) {
  return kernels::is_sum_reduction(reduction) ? SegmentForward<R>(values.shape()[0])
                                              : SegmentForward<R>(values, reduced);
}

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_reduce(
    GradientTape<R>& tape,
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentReduction reduction,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const reduced = segment_reduce(values, offsets, reduction, semantics, policy, issued_at);
  auto const forward = detail::segment_forward(values, reduced, reduction);
  return detail::recorded(
      tape,
      "segment_reduce",
      values,
      reduced,
      [=](auto const& gradient) {
        return segment_reduce_gradient(gradient, offsets, forward, reduction, issued_at);
      },
      issued_at);
}

template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> sorted_segment_reduce(
    GradientTape<R>& tape,
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const reduced =
      sorted_segment_reduce(values, sorted_ids, segments, reduction, options, issued_at);
  auto const forward = detail::segment_forward(values, reduced, reduction);
  return detail::recorded(
      tape,
      "sorted_segment_reduce",
      values,
      reduced,
      [=](auto const& gradient) {
        return sorted_segment_reduce_gradient(
            gradient, sorted_ids, forward, reduction, options, issued_at);
      },
      issued_at);
}

template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_reduce(
    GradientTape<R>& tape,
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const reduced =
      unsorted_segment_reduce(values, ids, segments, reduction, options, issued_at);
  auto const forward = detail::segment_forward(values, reduced, reduction);
  return detail::recorded(
      tape,
      "unsorted_segment_reduce",
      values,
      reduced,
      [=](auto const& gradient) {
        return unsorted_segment_reduce_gradient(
            gradient, ids, forward, reduction, options, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops
