// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/tensor/detail/overlap.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>

namespace msstream::ops {

namespace detail {

// The implementations of gather_rows(), scatter_rows(), scatter_rows_gradient() and assign_rows(),
// compiled once for all runtimes. `ids` are int64 or int32. gather_floats() gives the rows of a
// table of float32, float16 or bfloat16 as float32.

[[nodiscard]] AnyTensor gather_rows(AnyTensor const& table,
                                    AnyTensor const& ids,
                                    DeviceCount<AnyRuntime> const& count,
                                    std::source_location issued_at);
[[nodiscard]] Floats gather_floats(AnyTensor const& table,
                                   AnyTensor const& ids,
                                   DeviceCount<AnyRuntime> const& count,
                                   std::source_location issued_at);
[[nodiscard]] AnyTensor scatter_rows(AnyTensor const& values,
                                     AnyTensor const& ids,
                                     std::int64_t rows,
                                     DeviceCount<AnyRuntime> const& count,
                                     std::source_location issued_at);
[[nodiscard]] AnyTensor scatter_rows_gradient(AnyTensor const& output_gradient,
                                              AnyTensor const& ids,
                                              DeviceCount<AnyRuntime> const& count,
                                              std::source_location issued_at);
void assign_rows(AnyTensor const& table,
                 AnyTensor const& values,
                 AnyTensor const& ids,
                 DeviceCount<AnyRuntime> const& count,
                 std::source_location issued_at);

}  // namespace detail

/// Returns the rows of `table` [rows, width] that `ids` [...] (int64 or int32) name: [..., width],
/// of any element type. An id outside [0, rows) gives a row of zeros.
///
/// If `count`, a device scalar, is given, only the first *count ids exist, and the output rows
/// beyond them are undefined. The gradient with respect to the table is an unsorted segment sum of
/// the output's gradient by the ids. Deterministic; one launch; asynchronous; capture-safe. Throws
/// std::invalid_argument for bad shapes.
template <Element T, IdElement I, Runtime R>
[[nodiscard]] Tensor<T, R> gather_rows(
    Tensor<T, R> const& table,
    Tensor<I, R> const& ids,
    DeviceCount<R> const& count = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(msstream::detail::OfKnownType(),
                      detail::gather_rows(table.any(), ids.any(), count, issued_at));
}

/// Returns a table [rows, width] whose row ids[i] is values[i], for values [places, width] of any
/// element type and ids [places] (int64 or int32). Rows that no id names are zeros.
///
/// If an id occurs several times, its last occurrence counts. Ids outside [0, rows) are ignored; if
/// `count`, a device scalar, is given, all ids from index *count on are ignored too. To add rows
/// instead of assigning them, use a segment sum. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument for bad shapes and for 2^31 ids or more.
template <Element T, IdElement I, Runtime R>
[[nodiscard]] Tensor<T, R> scatter_rows(
    Tensor<T, R> const& values,
    Tensor<I, R> const& ids,
    std::int64_t rows,
    DeviceCount<R> const& count = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(msstream::detail::OfKnownType(),
                      detail::scatter_rows(values.any(), ids.any(), rows, count, issued_at));
}

/// Returns the gradient of scatter_rows() or assign_rows() with respect to the values, from the
/// gradient of the output [rows, width]: [places, width]. The gradient is 0 for value rows that the
/// operation ignored.
template <Element T, IdElement I, Runtime R>
[[nodiscard]] Tensor<T, R> scatter_rows_gradient(
    Tensor<T, R> const& output_gradient,
    Tensor<I, R> const& ids,
    DeviceCount<R> const& count = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(
      msstream::detail::OfKnownType(),
      detail::scatter_rows_gradient(output_gradient.any(), ids.any(), count, issued_at));
}

/// Sets row ids[i] of `table` [rows, width] to values[i] and keeps the other rows. Repeated ids,
/// ids out of range and `count` have the effects that scatter_rows() describes. Throws what
/// scatter_rows() throws, and std::invalid_argument if values, ids or count share elements with the
/// table.
template <Element T, IdElement I, Runtime R>
void assign_rows(Tensor<T, R> const& table,
                 Tensor<T, R> const& values,
                 Tensor<I, R> const& ids,
                 DeviceCount<R> const& count = {},
                 std::source_location issued_at = std::source_location::current()) {
  detail::assign_rows(table.any(), values.any(), ids.any(), count, issued_at);
}

}  // namespace msstream::ops
