// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

namespace msstream::ops {

namespace detail {

// The implementations of lengths_to_offsets(), offsets_to_lengths(), jagged_softmax() and
// jagged_softmax_gradient(), compiled once for all runtimes.

[[nodiscard]] TensorOf<std::int64_t> lengths_to_offsets(AnyTensor const& lengths,
                                                        DeviceCount<AnyRuntime> const& count,
                                                        std::source_location issued_at);
[[nodiscard]] TensorOf<std::int64_t> offsets_to_lengths(TensorOf<std::int64_t> const& offsets,
                                                        std::source_location issued_at);

[[nodiscard]] Floats jagged_softmax(Floats const& values,
                                    TensorOf<std::int64_t> const& offsets,
                                    OffsetPolicy<AnyRuntime> const& policy,
                                    std::source_location issued_at);
[[nodiscard]] Floats jagged_softmax_gradient(Floats const& output,
                                             Floats const& output_gradient,
                                             TensorOf<std::int64_t> const& offsets,
                                             std::source_location issued_at);

}  // namespace detail

/// Computes the offsets of jagged samples from their lengths: lengths [samples] (int64 or int32) →
/// offsets [samples + 1] int64; offsets[i] is the sum of the lengths before i.
///
/// A length below 0 counts as 0. If `count`, a device scalar, is given, only the first *count
/// samples exist, and the others are empty. Exact; one launch, preceded by a fill if there are more
/// than 8,192 samples; asynchronous; capture-safe. Throws std::invalid_argument unless lengths has
/// one dimension.
template <IdElement T, Runtime R>
[[nodiscard]] Tensor<std::int64_t, R> lengths_to_offsets(
    Tensor<T, R> const& lengths,
    DeviceCount<R> const& count = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::lengths_to_offsets(lengths.any(), count, issued_at));
}

/// Computes the length of each sample, lengths[i] = offsets[i + 1] - offsets[i], from offsets
/// [samples + 1]. A length is 0 where the difference or offsets[i] is below 0. Offsets beyond the
/// number of values are not detected, because that number is not known. One launch; asynchronous;
/// capture-safe. Throws std::invalid_argument unless offsets has one dimension and at least one
/// element.
template <Runtime R>
[[nodiscard]] Tensor<std::int64_t, R> offsets_to_lengths(
    Tensor<std::int64_t, R> const& offsets,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::offsets_to_lengths(offsets, issued_at));
}

namespace detail {

/// Returns the bits of a tensor's element, in the lower bytes of a 64-bit number.
template <Element T>
[[nodiscard]] std::uint64_t bits_of(T const& element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &element, sizeof(T));
  return bits;
}

// The implementations of jagged_to_dense(), dense_to_jagged(), repeat_rows() and segment_ids(),
// compiled once for all runtimes.

[[nodiscard]] AnyTensor jagged_to_dense(AnyTensor const& values,
                                        TensorOf<std::int64_t> const& offsets,
                                        std::int64_t max_length,
                                        std::uint64_t padding_bits,
                                        OffsetPolicy<AnyRuntime> const& policy,
                                        std::source_location issued_at);
[[nodiscard]] AnyTensor dense_to_jagged(AnyTensor const& dense,
                                        TensorOf<std::int64_t> const& offsets,
                                        std::int64_t capacity,
                                        OffsetPolicy<AnyRuntime> const& policy,
                                        std::source_location issued_at);
[[nodiscard]] AnyTensor repeat_rows(AnyTensor const& rows,
                                    TensorOf<std::int64_t> const& offsets,
                                    std::int64_t capacity,
                                    OffsetPolicy<AnyRuntime> const& policy,
                                    std::source_location issued_at);
[[nodiscard]] TensorOf<std::int64_t> segment_ids(TensorOf<std::int64_t> const& offsets,
                                                 std::int64_t capacity,
                                                 OffsetPolicy<AnyRuntime> const& policy,
                                                 std::source_location issued_at);

}  // namespace detail

/// Copies jagged samples to dense rows: values [capacity, width] or [capacity], of any element type
/// → [batch, max_length, width] or [batch, max_length]. Sample b has the rows [offsets[b],
/// offsets[b + 1]). A sample whose offsets do not ascend within [0, capacity] has no rows, in the
/// operation and in its gradient, and is reported as `policy` says. Samples never share a row.
///
/// A sample shorter than max_length is followed by `padding`; the rows of a longer one from
/// max_length on are dropped. Deterministic; one launch, whose size depends on the capacities
/// alone; asynchronous; capture-safe. The gradient is dense_to_jagged() of the output's gradient.
/// Throws std::invalid_argument for bad shapes.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> jagged_to_dense(
    Tensor<T, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t max_length,
    T padding = {},
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(
      msstream::detail::OfKnownType(),
      detail::jagged_to_dense(
          values.any(), offsets, max_length, detail::bits_of(padding), policy, issued_at));
}

/// Copies dense rows to jagged samples that are stored one after the other: dense [batch,
/// max_length, width] or [batch, max_length], of any element type → [capacity, width] or
/// [capacity]. Sample b receives the rows [offsets[b], offsets[b + 1]); the last offset is at most
/// the capacity. A sample whose offsets do not ascend within [0, capacity] receives no rows, in the
/// operation and in its gradient, and is reported as `policy` says.
///
/// Rows of `dense` beyond a sample's length are dropped. Output rows of a sample beyond max_length,
/// and output rows of no sample, are 0. Deterministic; one launch; asynchronous; capture-safe. The
/// gradient is jagged_to_dense() of the output's gradient. Throws std::invalid_argument for bad
/// shapes.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> dense_to_jagged(
    Tensor<T, R> const& dense,
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t capacity,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(msstream::detail::OfKnownType(),
                      detail::dense_to_jagged(dense.any(), offsets, capacity, policy, issued_at));
}

/// Gives each row of jagged samples the row of its sample: rows [samples, width] or [samples], of
/// any element type → [capacity, width] or [capacity]. Output row i is rows[b] for i in
/// [offsets[b], offsets[b + 1]); the last offset is at most the capacity. Output rows of no sample
/// are 0. A sample whose offsets do not ascend within [0, capacity] has no output rows, in the
/// operation and in its gradient, and is reported as `policy` says.
///
/// Samples may have any number of rows, so that attention needs no padding: the `capacity` is that
/// of the jagged values beside which the result stands. It is PyTorch's repeat_interleave(), with
/// the numbers of repetitions as offsets. Deterministic; one launch, whose size depends on the
/// capacity alone; asynchronous; capture-safe. The gradient is the sum of the output's gradient
/// over each sample, segment_reduce() by the offsets. Throws std::invalid_argument for bad shapes.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> repeat_rows(
    Tensor<T, R> const& rows,
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t capacity,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(msstream::detail::OfKnownType(),
                      detail::repeat_rows(rows.any(), offsets, capacity, policy, issued_at));
}

/// Returns the number of its sample for each row of jagged samples, from offsets [samples + 1]:
/// [capacity] int64, b for the rows [offsets[b], offsets[b + 1]), and -1 for rows of no sample,
/// which Segments and gather_rows() leave out. The last offset is at most the capacity. A sample
/// whose offsets do not ascend within [0, capacity] has no rows and is reported as `policy` says.
///
/// The inverse is segment_offsets(). One launch, whose size depends on the capacity alone;
/// asynchronous; capture-safe. Throws std::invalid_argument for bad shapes.
template <Runtime R>
[[nodiscard]] Tensor<std::int64_t, R> segment_ids(
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t capacity,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::segment_ids(offsets, capacity, policy, issued_at));
}

/// Returns the softmax of each column within each segment, for float32 values [capacity] or
/// [capacity, width]. Segment s has the rows [offsets[s], offsets[s + 1]); the last offset is at
/// most the capacity. Rows of no segment get 0. A segment whose offsets do not ascend within [0,
/// capacity] has no rows, in the operation and in its gradient, and is reported as `policy` says.
/// Segments never share a row.
///
/// The largest element is subtracted first, so that nothing overflows. As in PyTorch, a column of a
/// segment is all NaN if it holds NaN or +infinity, or nothing but -infinity. Deterministic; one
/// launch, which assigns threads to a segment by its length, and a second one, for segments that
/// several blocks share, if the capacity has room for such a segment; asynchronous; capture-safe.
/// Throws std::invalid_argument for bad shapes.
template <Runtime R>
[[nodiscard]] Tensor<float, R> jagged_softmax(
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::jagged_softmax(values, offsets, policy, issued_at));
}

/// Returns the gradient of jagged_softmax(), from its output y and the gradient dy of the output: y
/// * (dy - sum of y * dy over the segment), 0 wherever y is 0. One or two launches, like
/// jagged_softmax().
template <Runtime R>
[[nodiscard]] Tensor<float, R> jagged_softmax_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    Tensor<std::int64_t, R> const& offsets,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::jagged_softmax_gradient(output, output_gradient, offsets, issued_at));
}

}  // namespace msstream::ops
