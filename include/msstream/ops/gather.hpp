// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/id_element.hpp>
#include <msstream/tensor/detail/overlap.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>

namespace msstream::ops {

namespace detail {

/// Returns `shape` with one more dimension, of the given extent, at the end. Throws
/// std::invalid_argument if that exceeds Shape::kMaxRank.
inline Shape with_last(char const* operation, Shape const& shape, std::int64_t extent) {
  require(shape.rank() < Shape::kMaxRank,
          operation,
          ": ids of shape ",
          shape,
          "; expected at most ",
          Shape::kMaxRank - 1,
          " dimensions");
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    extents[d] = shape[d];
  }
  extents[shape.rank()] = extent;
  return Shape(std::span(extents.data(), shape.rank() + 1));
}

template <Element T>
std::int64_t row_bytes_of(std::int64_t width) {
  return width * static_cast<std::int64_t>(sizeof(T));
}

/// Throws std::invalid_argument unless `rows` is [places, width] and `ids` is [places].
template <IdElement I, Runtime R>
void require_row_for_each(char const* operation, Shape const& rows, Tensor<I, R> const& ids) {
  require(rows.rank() == 2 && ids.shape().rank() == 1 && rows[0] == ids.count(),
          operation,
          ": values of shape ",
          rows,
          ", ids of shape ",
          ids.shape(),
          "; expected [places, width] and [places]");
}

template <IdElement I, Runtime R>
kernels::RowTargets row_targets(char const* operation,
                                Tensor<I, R> const& ids,
                                std::optional<Tensor<std::int64_t, R>> const& count,
                                std::int64_t rows,
                                Workspace<R> const& workspace) {
  return {ids.data(), ids.count(), count_of(operation, count), rows, workspace.data()};
}

/// Writes each row of `values` to the row of `output` [rows, width] that its id names. Other rows
/// keep their contents if `keeps_others`, and are set to 0 otherwise.
template <Element T, IdElement I, Runtime R>
void scatter_rows(char const* operation,
                  Tensor<T, R> const& output,
                  Tensor<T, R> const& values,
                  Tensor<I, R> const& ids,
                  std::optional<Tensor<std::int64_t, R>> const& count,
                  bool keeps_others,
                  std::source_location issued_at) {
  auto const rows = output.shape()[0];
  auto const& device = output.device();
  Workspace<R> const workspace(device,
                               kernels::scatter_rows_workspace_bytes(
                                   size_query<R>(*device), ids.count(), rows, keeps_others));
  kernels::ScatterRowsArgs const args{values.data(),
                                      row_bytes_of<T>(values.shape()[1]),
                                      row_targets(operation, ids, count, rows, workspace),
                                      keeps_others,
                                      output.data()};
  auto read = reads(values, ids);
  if (count) {
    read.add(*count);
  }
  issue(
      operation,
      read,
      workspace.with(writes(output)),
      [args](auto stream) { kernels::scatter_rows(stream, args); },
      {},
      issued_at);
}

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
  require(table.shape().rank() == 2,
          "gather_rows: table of shape ",
          table.shape(),
          "; expected [rows, width]");
  auto const width = table.shape()[1];
  Tensor<T, R> gathered(table.device(), detail::with_last("gather_rows", ids.shape(), width));
  kernels::GatherRowsArgs const args{table.data(),
                                     table.shape()[0],
                                     detail::row_bytes_of<T>(width),
                                     ids.data(),
                                     ids.count(),
                                     detail::count_of("gather_rows", count),
                                     gathered.data()};
  auto read = reads(table, ids);
  if (count) {
    read.add(*count);
  }
  issue(
      "gather_rows",
      read,
      writes(gathered),
      [args](auto stream) { kernels::gather_rows(stream, args); },
      {},
      issued_at);
  return gathered;
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
  detail::require_row_for_each("scatter_rows", values.shape(), ids);
  require(rows >= 0, "scatter_rows: ", rows, " rows");
  Tensor<T, R> table(values.device(), {rows, values.shape()[1]});
  detail::scatter_rows("scatter_rows", table, values, ids, count, false, issued_at);
  return table;
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
  auto const& shape = output_gradient.shape();
  require(shape.rank() == 2 && ids.shape().rank() == 1,
          "scatter_rows_gradient: gradient of shape ",
          shape,
          ", ids of shape ",
          ids.shape(),
          "; expected [rows, width] and [places]");
  auto const& device = output_gradient.device();
  Tensor<T, R> gradient(device, {ids.count(), shape[1]});
  detail::Workspace<R> const workspace(device,
                                       kernels::scatter_rows_gradient_workspace_bytes(
                                           detail::size_query<R>(*device), ids.count(), shape[0]));
  kernels::ScatterRowsGradientArgs const args{
      output_gradient.data(),
      detail::row_bytes_of<T>(shape[1]),
      detail::row_targets("scatter_rows_gradient", ids, count, shape[0], workspace),
      gradient.data()};
  auto read = reads(output_gradient, ids);
  if (count) {
    read.add(*count);
  }
  issue(
      "scatter_rows_gradient",
      read,
      workspace.with(writes(gradient)),
      [args](auto stream) { kernels::scatter_rows_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

/// Sets row ids[i] of `table` [rows, width] to values[i] and keeps the other rows. Like
/// scatter_rows(), but also throws std::invalid_argument if values, ids or count share elements
/// with the table.
template <Element T, IdElement I, Runtime R>
void assign_rows(Tensor<T, R> const& table,
                 Tensor<T, R> const& values,
                 Tensor<I, R> const& ids,
                 DeviceCount<R> const& count = {},
                 std::source_location issued_at = std::source_location::current()) {
  detail::require_row_for_each("assign_rows", values.shape(), ids);
  require(table.shape().rank() == 2 && table.shape()[1] == values.shape()[1],
          "assign_rows: values of shape ",
          values.shape(),
          " for a table of shape ",
          table.shape());
  msstream::detail::require_no_overlap("assign_rows", table.any(), values.any());
  msstream::detail::require_no_overlap("assign_rows", table.any(), ids.any());
  if (count) {
    msstream::detail::require_no_overlap("assign_rows", table.any(), count->any());
  }
  detail::scatter_rows("assign_rows", table, values, ids, count, true, issued_at);
}

}  // namespace msstream::ops
