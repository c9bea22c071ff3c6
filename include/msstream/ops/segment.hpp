// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/choices.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace msstream::ops {

/// The results of a forward reduction that its gradient needs: the number of value rows, and for
/// max, min and prod also the `values` [capacity, width] and the `reduced` [segments, width].
template <Runtime R = DefaultRuntime>
struct SegmentForward {
  std::int64_t capacity;
  std::optional<Tensor<float, R>> values = {};
  std::optional<Tensor<float, R>> reduced = {};

  // NOLINTNEXTLINE(google-explicit-constructor): sums, means and sqrtn need a capacity only
  SegmentForward(std::int64_t value_rows) : capacity(value_rows) {}
  SegmentForward(Tensor<float, R> all_values, Tensor<float, R> reduced_values)
      : capacity(all_values.shape().rank() > 0 ? all_values.shape()[0] : 0),
        values(std::move(all_values)),
        reduced(std::move(reduced_values)) {}
  /// For the library itself: the same results, on a device of whichever runtime.
  template <Runtime Other>
    requires(std::same_as<R, detail::AnyRuntime> && !std::same_as<Other, R>)
  SegmentForward(SegmentForward<Other> const& forward)  // NOLINT(google-explicit-constructor):
                                                        // loses only the type
      : capacity(forward.capacity), values(forward.values), reduced(forward.reduced) {}
};

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
