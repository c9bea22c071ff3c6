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

namespace detail {

/// The implementation of Segments, compiled once for all runtimes. The operations check the shapes,
/// so that an error message can contain the operation's name and the other shapes.
struct AnySegments {
  AnyTensor indices;                                 ///< int64 offsets; or int32 or int64 ids
  std::int64_t segments;                             ///< one less than the offsets
  std::optional<SegmentIds> order = {};              ///< the order of the ids; null: offsets
  std::optional<TensorOf<std::int64_t>> count = {};  ///< with ids: how many exist
  OffsetPolicy<AnyRuntime> policy = {};              ///< with offsets: for bad ones
};

}  // namespace detail

/// Rows grouped into segments, one segment per output row, by offsets or by ids. A value: copies
/// share the tensors.
///
/// By offsets [segments + 1] int64 on the device, ascending, the last ≤ capacity, the number of
/// rows: segment s has the rows [offsets[s], offsets[s + 1]). Rows before offsets[0] and rows from
/// the last offset on are in no segment. A segment whose offsets do not ascend within [0, capacity]
/// has no rows, in the operation and in its gradient, and is reported as `policy` says. Segments
/// never share a row.
///
/// By ids [capacity] int32 or int64 on the device, sorted or unsorted: row i is in segment ids[i].
/// Ids outside [0, segments) belong to no segment. `count` is a device scalar ≤ capacity, the
/// number of ids that exist: rows beyond it are in no segment. One captured launch thus serves
/// every number of ids up to the capacity.
///
///   segment_reduce(values, offsets, SegmentReduction::sum);
///   segment_reduce(values, {ids, 8, SegmentIds::sorted}, SegmentReduction::max);
///   Segments const by_user(ids, 8, SegmentIds::unsorted, count);
template <Runtime R = DefaultRuntime>
class Segments {
 public:
  Segments(Tensor<std::int64_t, R> const& offsets,  // NOLINT(google-explicit-constructor)
           OffsetPolicy<R> const& policy = {})
      : any_{offsets.any(), offsets.count() - 1, {}, {}, policy} {}
  template <IdElement Id>
  Segments(Tensor<Id, R> const& ids,
           std::int64_t segments,
           SegmentIds order = SegmentIds::unsorted,
           DeviceCount<R> const& count = {})
      : any_{ids.any(), segments, order, count, {}} {}

  /// Returns the number of segments.
  [[nodiscard]] std::int64_t segments() const noexcept { return any_.segments; }
  /// Returns the segments without a runtime type. For use by the library only.
  [[nodiscard]] detail::AnySegments const& any() const noexcept { return any_; }

 private:
  detail::AnySegments any_;
};

/// The results of a forward reduction that its gradient needs: the number of value rows, and for
/// max, min and prod also the `values` [capacity, width] and the `reduced` [segments, width].
template <Runtime R = DefaultRuntime>
struct SegmentForward {
  std::int64_t capacity;  ///< the number of value rows
  std::optional<Tensor<float, R>> values = {};
  std::optional<Tensor<float, R>> reduced = {};

  /// Takes the number of value rows, or for max, min and prod the values and the result of the
  /// forward.
  // NOLINTNEXTLINE(google-explicit-constructor): sums, means and sqrtn need a capacity only
  SegmentForward(std::int64_t value_rows) : capacity(value_rows) {}
  SegmentForward(Tensor<float, R> all_values, Tensor<float, R> reduced_values)
      : capacity(all_values.shape().rank() > 0 ? all_values.shape()[0] : 0),
        values(std::move(all_values)),
        reduced(std::move(reduced_values)) {}
  /// Converts results to results without a runtime type. For use by the library only.
  template <Runtime Other>
    requires(std::same_as<R, detail::AnyRuntime> && !std::same_as<Other, R>)
  SegmentForward(SegmentForward<Other> const& forward)  // NOLINT(google-explicit-constructor)
      : capacity(forward.capacity), values(forward.values), reduced(forward.reduced) {}
};

/// Options of segment_reduce().
struct SegmentOptions {
  /// The result of a segment without rows.
  SegmentSemantics semantics = SegmentSemantics::tensorflow;
  /// If true, equal arguments give equal bits. If false, sums, means and sqrtn of unsorted ids may
  /// be added atomically, in any order, on CUDA instead of sorting the ids. The sizes alone decide
  /// whether atomic additions are faster (narrow rows, few elements or few segments); if not, the
  /// ids are sorted.
  bool deterministic = true;
};

namespace detail {

// The implementations of segment_reduce(), segment_reduce_gradient() and segment_offsets(),
// compiled once for all runtimes.

[[nodiscard]] Floats segment_reduce(Floats const& values,
                                    AnySegments const& segments,
                                    SegmentReduction reduction,
                                    SegmentOptions const& options,
                                    std::source_location issued_at);
[[nodiscard]] Floats segment_reduce_gradient(Floats const& output_gradient,
                                             AnySegments const& segments,
                                             SegmentForward<AnyRuntime> const& forward,
                                             SegmentReduction reduction,
                                             std::source_location issued_at);
[[nodiscard]] TensorOf<std::int64_t> segment_offsets(AnyTensor const& sorted_ids,
                                                     std::int64_t segments,
                                                     std::source_location issued_at);

}  // namespace detail

/// Reduces the rows of each segment: values [capacity, width] float32 → [segments, width].
///
/// A NaN in a segment makes every reduction of the segment NaN, including a maximum and a minimum;
/// infinity follows IEEE arithmetic. Balanced over segments of any length. By unsorted ids on CUDA,
/// capacity and segments must be below 2^31, and the row indices are sorted by id, by only as many
/// bits as the number of segments needs, unless the options permit atomic additions. Deterministic
/// (equal arguments give equal bits) unless the options permit atomic additions; asynchronous;
/// capture-safe. Throws std::invalid_argument for shapes that do not fit.
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_reduce(
    Tensor<float, R> const& values,
    std::type_identity_t<Segments<R>> const& segments,
    SegmentReduction reduction,
    SegmentOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::segment_reduce(values, segments.any(), reduction, options, issued_at));
}

/// Returns the gradient of segment_reduce() with respect to its value rows: output_gradient
/// [segments, width] → [capacity, width]. Rows in no segment get 0.
///
/// `forward` is the number of value rows for sum, mean and sqrtn, and {values, reduced} for max,
/// min and prod. Elements that equal a maximum or minimum share its gradient equally; NaN equals
/// NaN. An element's gradient of a product is the product of the other elements times the output's
/// gradient, exact where one of them is 0. Bad offsets are not reported again. Deterministic;
/// asynchronous; capture-safe.
template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_reduce_gradient(
    Tensor<float, R> const& output_gradient,
    std::type_identity_t<Segments<R>> const& segments,
    std::type_identity_t<SegmentForward<R>> const& forward,
    SegmentReduction reduction,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::segment_reduce_gradient(
      output_gradient, segments.any(), forward, reduction, issued_at));
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

}  // namespace msstream::ops
