// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/id_element.hpp>
#include <msstream/ops/segment_common.hpp>
#include <msstream/ops/segment_reduction.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <source_location>
#include <type_traits>

namespace msstream::ops {

/// Options of a reduction of rows by their segment ids.
template <Runtime R = DefaultRuntime>
struct SegmentOptions {
  SegmentSemantics semantics = SegmentSemantics::tensorflow;
  /// If true, equal arguments give equal bits. If false, sums, means and sqrtn of unsorted ids may
  /// be added atomically, in any order, on CUDA instead of sorting the ids. The sizes alone decide
  /// whether that is faster (narrow rows, few elements or few segments); otherwise the ids are
  /// sorted.
  bool deterministic = true;
  /// A device scalar ≤ capacity: the number of ids that exist. Rows beyond it are in no segment.
  /// One captured launch thus serves every number of ids up to the capacity.
  DeviceCount<R> count = {};

  /// For the library itself: the same options, on a device of whichever runtime.
  operator SegmentOptions<detail::AnyRuntime>() const  // NOLINT(google-explicit-constructor)
      requires(!std::same_as<R, detail::AnyRuntime>) {
    return {semantics, deterministic, count};
  }
};

namespace detail {

// The bodies of the functions below; `ids` are int32 or int64.

[[nodiscard]] Floats sorted_segment_reduce(Floats const& values,
                                           AnyTensor const& ids,
                                           std::int64_t segments,
                                           SegmentReduction reduction,
                                           SegmentOptions<AnyRuntime> const& options,
                                           std::source_location issued_at);
[[nodiscard]] Floats unsorted_segment_reduce(Floats const& values,
                                             AnyTensor const& ids,
                                             std::int64_t segments,
                                             SegmentReduction reduction,
                                             SegmentOptions<AnyRuntime> const& options,
                                             std::source_location issued_at);
[[nodiscard]] Floats sorted_segment_reduce_gradient(Floats const& output_gradient,
                                                    AnyTensor const& ids,
                                                    SegmentForward<AnyRuntime> const& forward,
                                                    SegmentReduction reduction,
                                                    SegmentOptions<AnyRuntime> const& options,
                                                    std::source_location issued_at);
[[nodiscard]] Floats unsorted_segment_reduce_gradient(Floats const& output_gradient,
                                                      AnyTensor const& ids,
                                                      SegmentForward<AnyRuntime> const& forward,
                                                      SegmentReduction reduction,
                                                      SegmentOptions<AnyRuntime> const& options,
                                                      std::source_location issued_at);

}  // namespace detail

/// Reduces the rows of equal segment ids: values [capacity, width] float32, sorted_ids [capacity]
/// int32 or int64, ascending → [segments, width].
///
/// Ids outside [0, segments) belong to no segment. Otherwise like segment_reduce().
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> sorted_segment_reduce(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sorted_segment_reduce(
      values, sorted_ids.any(), segments, reduction, options, issued_at));
}

/// Reduces the rows of equal segment ids, which may be in any order: values [capacity, width]
/// float32, ids [capacity] int32 or int64 → [segments, width].
///
/// Ids outside [0, segments) belong to no segment. Otherwise like segment_reduce(), but on CUDA
/// capacity and segments must be below 2^31. On CUDA the row indices are sorted by id, by only as
/// many bits as `segments` needs, unless the options permit atomic additions.
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_reduce(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::unsorted_segment_reduce(values, ids.any(), segments, reduction, options, issued_at));
}

/// Returns the gradient of sorted_segment_reduce() with respect to its value rows, for
/// output_gradient [segments, width]. Like segment_reduce_gradient(); of the options only `count`
/// matters.
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> sorted_segment_reduce_gradient(
    Tensor<float, R> const& output_gradient,
    Tensor<Id, R> const& sorted_ids,
    std::type_identity_t<SegmentForward<R>> const& forward,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sorted_segment_reduce_gradient(
      output_gradient, sorted_ids.any(), forward, reduction, options, issued_at));
}
/// Returns the gradient of unsorted_segment_reduce() with respect to its value rows, for
/// output_gradient [segments, width]. Like segment_reduce_gradient(); of the options only `count`
/// matters.
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_reduce_gradient(
    Tensor<float, R> const& output_gradient,
    Tensor<Id, R> const& ids,
    std::type_identity_t<SegmentForward<R>> const& forward,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::unsorted_segment_reduce_gradient(
      output_gradient, ids.any(), forward, reduction, options, issued_at));
}

/// The functions sorted_segment_sum() to unsorted_segment_prod() are sorted_segment_reduce() and
/// unsorted_segment_reduce() with one reduction each.
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> sorted_segment_sum(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::sum, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> sorted_segment_mean(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::mean, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> sorted_segment_sqrtn(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::sqrtn, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> sorted_segment_max(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::max, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> sorted_segment_min(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::min, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> sorted_segment_prod(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::prod, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_sum(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(values, ids, segments, SegmentReduction::sum, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_mean(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(values, ids, segments, SegmentReduction::mean, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_sqrtn(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(
      values, ids, segments, SegmentReduction::sqrtn, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_max(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(values, ids, segments, SegmentReduction::max, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_min(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(values, ids, segments, SegmentReduction::min, options, issued_at);
}
template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_prod(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(values, ids, segments, SegmentReduction::prod, options, issued_at);
}

}  // namespace msstream::ops
