// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/embedding_tables.hpp>

#include <cstdint>
#include <source_location>
#include <utility>

namespace msstream::ops {

/// The gradients of many tables, for the rows that a lookup has read. `values[u, : width of its
/// table]` is the gradient of row `rows[u]` among the rows of all tables, for u < *count. The rows
/// of table t have u in [table_starts[t], table_starts[t + 1]).
template <Runtime R = DefaultRuntime>
struct TablesRowGradients {
  Tensor<std::int64_t, R> rows;          ///< [capacity]: tables.first_row(t) + id; ascending
  Tensor<std::int64_t, R> count;         ///< scalar: the number of rows with a gradient
  Tensor<std::int64_t, R> table_starts;  ///< [tables + 1], into rows
  Tensor<float, R> values;               ///< [capacity, width of the widest table]
};

namespace detail {

template <Runtime R>
[[nodiscard]] TablesRowGradients<R> typed(TablesRowGradients<AnyRuntime> gradients) {
  return {typed<R>(std::move(gradients.rows)),
          typed<R>(std::move(gradients.count)),
          typed<R>(std::move(gradients.table_starts)),
          typed<R>(std::move(gradients.values))};
}

// The body of the function below.

[[nodiscard]] TablesRowGradients<AnyRuntime> embedding_tables_gradient(
    EmbeddingTables<AnyRuntime> const& tables,
    TableBags<AnyRuntime> const& bags,
    AnyTensor const& output_gradient,
    std::source_location issued_at);

}  // namespace detail

/// Returns the gradient of an embedding_lookup() in many tables with respect to the tables, from
/// the gradient of its output: [batch, tables.width()], float32, float16 or bfloat16, accumulated
/// in float32. The ids of all tables are sorted once, by only as many bits as the number of all
/// rows needs.
///
/// Not for tables of Pooling::max. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument in the cases in which the lookup does, for an output gradient of another
/// shape, and for 2^31 bags or ids or more.
template <Element T, Runtime R>
[[nodiscard]] TablesRowGradients<R> embedding_tables_gradient(
    EmbeddingTables<R> const& tables,
    TableBags<R> const& bags,
    Tensor<T, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::embedding_tables_gradient(tables, bags, output_gradient.any(), issued_at));
}

}  // namespace msstream::ops
