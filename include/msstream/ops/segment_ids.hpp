// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/segment_common.hpp>
#include <msstream/ops/segment_reduction.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <cstdint>
#include <optional>
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
};

namespace detail {

template <Runtime R, Element Id>
auto segments_by_ids(char const* name,
                     kernels::SegmentForm form,
                     Tensor<Id, R> const& ids,
                     std::int64_t segments,
                     std::optional<Tensor<std::int64_t, R>> const& count) {
  static_assert(std::is_same_v<Id, std::int32_t> || std::is_same_v<Id, std::int64_t>,
                "segment ids are int32 or int64");
  require(ids.shape().rank() == 1 && segments >= 0 && (!count || count->count() == 1),
          name,
          ": ids of shape ",
          ids.shape(),
          " for ",
          segments,
          " segments, and a count of shape ",
          count ? count->shape() : Shape{},
          "; expected [capacity], 0 segments or more, and a scalar");
  auto uses = reads(ids);
  if (count) {
    uses.add(*count);
  }
  return SegmentIssue<R, decltype(uses)>{name,
                                         {.form = form,
                                          .segments = segments,
                                          .capacity = ids.count(),
                                          .indices = ids.data(),
                                          .id_type = dtype_of<Id>,
                                          .count = count ? count->data() : nullptr},
                                         uses};
}

template <Runtime R, class Uses>
[[nodiscard]] Tensor<float, R> reduce_by_ids(SegmentIssue<R, Uses> const& segments,
                                             Tensor<float, R> const& values,
                                             SegmentReduction reduction,
                                             SegmentOptions<R> const& options,
                                             std::source_location issued_at) {
  require(values.shape().rank() == 2 && values.shape()[0] == segments.layout.capacity,
          segments.name,
          ": values of shape ",
          values.shape(),
          " for ",
          segments.layout.capacity,
          " ids; expected a row an id");
  return reduce_segments(
      segments, values, reduction, options.semantics, options.deterministic, issued_at);
}

}  // namespace detail

/// Reduces the rows of equal segment ids: values [capacity, width] float32, sorted_ids [capacity]
/// int32 or int64, ascending → [segments, width].
///
/// Ids outside [0, segments) belong to no segment. Otherwise like segment_reduce().
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> sorted_segment_reduce(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::reduce_by_ids(detail::segments_by_ids("sorted_segment_reduce",
                                                       kernels::SegmentForm::sorted_ids,
                                                       sorted_ids,
                                                       segments,
                                                       options.count),
                               values,
                               reduction,
                               options,
                               issued_at);
}

/// Reduces the rows of equal segment ids, which may be in any order: values [capacity, width]
/// float32, ids [capacity] int32 or int64 → [segments, width].
///
/// Ids outside [0, segments) belong to no segment. Otherwise like segment_reduce(), but on CUDA
/// capacity and segments must be below 2^31. On CUDA the row indices are sorted by id, by only as
/// many bits as `segments` needs, unless the options permit atomic additions.
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_reduce(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::reduce_by_ids(detail::segments_by_ids("unsorted_segment_reduce",
                                                       kernels::SegmentForm::unsorted_ids,
                                                       ids,
                                                       segments,
                                                       options.count),
                               values,
                               reduction,
                               options,
                               issued_at);
}

/// Returns the gradient of sorted_segment_reduce() with respect to its value rows, for
/// output_gradient [segments, width]. Like segment_reduce_gradient(); of the options only `count`
/// matters.
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> sorted_segment_reduce_gradient(
    Tensor<float, R> const& output_gradient,
    Tensor<Id, R> const& sorted_ids,
    std::type_identity_t<SegmentForward<R>> const& forward,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::segment_gradient(detail::segments_by_ids("sorted_segment_reduce_gradient",
                                                          kernels::SegmentForm::sorted_ids,
                                                          sorted_ids,
                                                          detail::segments_of(output_gradient),
                                                          options.count),
                                  output_gradient,
                                  forward,
                                  reduction,
                                  issued_at);
}
/// Returns the gradient of unsorted_segment_reduce() with respect to its value rows, for
/// output_gradient [segments, width]. Like segment_reduce_gradient(); of the options only `count`
/// matters.
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_reduce_gradient(
    Tensor<float, R> const& output_gradient,
    Tensor<Id, R> const& ids,
    std::type_identity_t<SegmentForward<R>> const& forward,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::segment_gradient(detail::segments_by_ids("unsorted_segment_reduce_gradient",
                                                          kernels::SegmentForm::unsorted_ids,
                                                          ids,
                                                          detail::segments_of(output_gradient),
                                                          options.count),
                                  output_gradient,
                                  forward,
                                  reduction,
                                  issued_at);
}

/// The functions sorted_segment_sum() to unsorted_segment_prod() are sorted_segment_reduce() and
/// unsorted_segment_reduce() with one reduction each.
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> sorted_segment_sum(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::sum, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> sorted_segment_mean(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::mean, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> sorted_segment_sqrtn(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::sqrtn, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> sorted_segment_max(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::max, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> sorted_segment_min(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::min, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> sorted_segment_prod(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return sorted_segment_reduce(
      values, sorted_ids, segments, SegmentReduction::prod, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_sum(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(values, ids, segments, SegmentReduction::sum, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_mean(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(values, ids, segments, SegmentReduction::mean, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_sqrtn(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(
      values, ids, segments, SegmentReduction::sqrtn, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_max(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(values, ids, segments, SegmentReduction::max, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_min(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(values, ids, segments, SegmentReduction::min, options, issued_at);
}
template <Runtime R, Element Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_prod(
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return unsorted_segment_reduce(values, ids, segments, SegmentReduction::prod, options, issued_at);
}

}  // namespace msstream::ops
