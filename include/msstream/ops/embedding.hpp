// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/id_trap.hpp>
#include <msstream/ops/kernels/embedding.hpp>
#include <msstream/ops/kernels/row_parts.hpp>
#include <msstream/ops/workspace.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace msstream::ops {

namespace detail {

/// Here, because a launch thread would throw it too late.
template <Element T>
void require_weights(char const* operation) {
  constexpr bool is_weight = dtype_of<T> == DType::float32 || dtype_of<T> == DType::float16 ||
                             dtype_of<T> == DType::bfloat16;
  require(is_weight,
          operation,
          ": a table of ",
          name_of(dtype_of<T>),
          "; expected float32, float16 or bfloat16");
}

}  // namespace detail

template <Runtime R>
struct LookupOptions {
  Pooling pooling = Pooling::sum;
  OutOfRange out_of_range = OutOfRange::drop;
  /// For OutOfRange::count: a device scalar that grows by the number of bad ids.
  std::optional<Tensor<std::int64_t, R>> bad_id_count = {};
};

/// Pools rows of `table` [rows, width] (float32, float16 or bfloat16) into [bags, width] float32,
/// accumulated in float32 in the order of the ids. An empty bag gives 0.
///
/// Deterministic; asynchronous; capture-safe unless ids trap. Throws std::invalid_argument for bad
/// shapes. With OutOfRange::trap the next to_host() or PinnedArray::wait() throws
/// std::out_of_range.
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_lookup(Tensor<T, R> const& table,
                                                Bags<R> const& bags,
                                                LookupOptions<R> const& options = {}) {
  require(table.shape().rank() == 2,
          "embedding_lookup: table of shape ",
          table.shape(),
          "; expected [rows, width]");
  detail::require_weights<T>("embedding_lookup");
  Tensor<float, R> pooled(table.device(), {bags.bags(), table.shape()[1]});
  kernels::LookupArgs args{table.data(),
                           dtype_of<T>,
                           table.shape()[0],
                           table.shape()[1],
                           bags.ids.data(),
                           bags.layout(),
                           options.pooling,
                           {},
                           pooled.data()};
  auto written = writes(pooled);
  args.report = detail::id_report(
      "embedding_lookup", *table.device(), options.out_of_range, options.bad_id_count, written);
  auto read = detail::reads_of(bags);
  read.add(table);
  issue("embedding_lookup", read, written, [args](auto stream) {
    kernels::embedding_lookup(stream, args);
  });
  return pooled;
}

/// Jagged bags: `ids` [capacity], `offsets` [bags + 1].
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_lookup(Tensor<T, R> const& table,
                                                Tensor<std::int64_t, R> const& ids,
                                                Tensor<std::int64_t, R> const& offsets,
                                                Pooling pooling) {
  return embedding_lookup(table, Bags<R>(ids, offsets), LookupOptions<R>{.pooling = pooling});
}

/// Equal ids grouped: the u-th distinct valid id and the places of `ids` where it stands, all
/// ascending.
template <Runtime R>
struct UniqueRows {
  Tensor<std::int64_t, R> ids;        ///< [capacity]
  Tensor<std::int32_t, R> starts;     ///< [capacity + 1], into positions
  Tensor<std::int32_t, R> positions;  ///< [capacity]
  Tensor<std::int32_t, R> ranks;      ///< [capacity]: positions[k] holds ids[ranks[k]]; -1: no id
  Tensor<std::int64_t, R> count;      ///< scalar: how many ids are distinct
};

/// Groups equal ids of a lookup into `rows` rows. The count stays on the device. Deterministic;
/// capture-safe.
template <Runtime R>
[[nodiscard]] UniqueRows<R> deduplicate(Bags<R> const& bags, std::int64_t rows) {
  auto const& device = bags.ids.device();
  std::int64_t const capacity = bags.ids.count();
  UniqueRows<R> unique{{device, {capacity}},
                       {device, {capacity + 1}},
                       {device, {capacity}},
                       {device, {capacity}},
                       {device, Shape{}}};
  auto const workspace_bytes =
      kernels::deduplicate_workspace_bytes(detail::size_query(*device), capacity);
  detail::Workspace<R> const workspace(device, workspace_bytes);
  kernels::DeduplicateArgs const args{bags.ids.data(),
                                      bags.layout(),
                                      rows,
                                      unique.ids.data(),
                                      unique.starts.data(),
                                      unique.positions.data(),
                                      unique.ranks.data(),
                                      unique.count.data(),
                                      workspace.data()};
  issue("deduplicate",
        detail::reads_of(bags),
        workspace.with(
            writes(unique.ids, unique.starts, unique.positions, unique.ranks, unique.count)),
        [args](auto stream) { kernels::deduplicate(stream, args); });
  return unique;
}

/// The gradient of a table: `values[u]` for row `ids[u]`, for u < *count.
template <Runtime R>
struct RowGradients {
  Tensor<std::int64_t, R> ids;    ///< [capacity], distinct, ascending
  Tensor<std::int64_t, R> count;  ///< scalar
  Tensor<float, R> values;        ///< [capacity, width]
};

/// The gradient of embedding_lookup with respect to its table of `rows` rows, from that of its
/// output [bags, width]. Deterministic; asynchronous; capture-safe.
template <Runtime R>
[[nodiscard]] RowGradients<R> embedding_gradient(Bags<R> const& bags,
                                                 UniqueRows<R> const& unique,
                                                 std::int64_t rows,
                                                 Pooling pooling,
                                                 Tensor<float, R> const& output_gradient) {
  auto const& device = bags.ids.device();
  require(output_gradient.shape().rank() == 2 && output_gradient.shape()[0] == bags.bags(),
          "embedding_gradient: output gradient of shape ",
          output_gradient.shape(),
          " for ",
          bags.bags(),
          " bags");
  std::int64_t const capacity = bags.ids.count();
  require(unique.positions.count() == capacity && unique.starts.count() == capacity + 1,
          "embedding_gradient: ids ",
          bags.ids.shape(),
          ", grouped ",
          unique.positions.shape());
  std::int64_t const width = output_gradient.shape()[1];
  Tensor<float, R> values(device, {capacity, width});
  auto const workspace_bytes =
      kernels::row_gradient_workspace_bytes(detail::size_query(*device), bags.layout(), width);
  detail::Workspace<R> const workspace(device, workspace_bytes);
  kernels::RowGradientArgs const args{.ids = bags.ids.data(),
                                      .bags = bags.layout(),
                                      .rows = rows,
                                      .pooling = pooling,
                                      .starts = unique.starts.data(),
                                      .positions = unique.positions.data(),
                                      .ranks = unique.ranks.data(),
                                      .unique_count = unique.count.data(),
                                      .output_gradient = output_gradient.data(),
                                      .width = width,
                                      .row_gradients = values.data(),
                                      .workspace = workspace.data()};
  auto read = detail::reads_of(bags);
  read.add(unique.starts);
  read.add(unique.positions);
  read.add(unique.ranks);
  read.add(unique.count);
  read.add(output_gradient);
  issue("embedding_gradient", read, workspace.with(writes(values)), [args](auto stream) {
    kernels::embedding_row_gradients(stream, args);
  });
  return {unique.ids, unique.count, values};
}

/// One gradient from several of the same table of `rows` rows: the values of equal rows
/// added, in an order that depends on the ids alone. Deterministic; asynchronous; capture-safe.
template <Runtime R>
[[nodiscard]] RowGradients<R> merge_row_gradients(std::vector<RowGradients<R>> const& parts,
                                                  std::int64_t rows) {
  require(!parts.empty(), "merge_row_gradients: no parts");
  std::int64_t capacity = 0;
  for (auto const& part : parts) {
    auto const& shape = part.values.shape();
    require(shape.rank() == 2 && part.ids.count() == shape[0] &&
                shape[1] == parts.front().values.shape()[1],
            "merge_row_gradients: ids ",
            part.ids.shape(),
            " with values ",
            shape,
            ", after values ",
            parts.front().values.shape());
    capacity += shape[0];
  }
  std::int64_t const width = parts.front().values.shape()[1];
  auto const& device = parts.front().values.device();
  Tensor<std::int64_t, R> ids(device, {capacity});
  Tensor<float, R> values(device, {capacity, width});
  std::int64_t begin = 0;
  for (auto const& part : parts) {
    std::int64_t const part_capacity = part.values.shape()[0];
    kernels::MergeRowsArgs const args{part.ids.data(),
                                      part.values.data(),
                                      part.count.data(),
                                      part_capacity,
                                      width,
                                      ids.data() + begin,
                                      values.data() + begin * width};
    issue("merge_rows",
          reads(part.ids, part.values, part.count),
          writes(ids, values),
          [args](auto stream) { kernels::merge_rows(stream, args); });
    begin += part_capacity;
  }
  Bags<R> const bags(ids);
  return embedding_gradient(bags, deduplicate(bags, rows), rows, Pooling::sum, values);
}

}  // namespace msstream::ops
