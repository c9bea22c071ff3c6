// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/pooling.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

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
  constexpr char const* kName = "embedding_tables_gradient";
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  detail::require_weights<T>(kName);
  detail::require_bags(kName, tables, bags);
  require(output_gradient.shape() == (Shape{bags.batch, tables.width()}),
          kName,
          ": output gradient of shape ",
          output_gradient.shape(),
          "; expected ",
          Shape{bags.batch, tables.width()});
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    require(tables.table(t).pooling != Pooling::max, kName, ": table ", t, " takes the maximum");
  }
  auto const& device = tables.device();
  auto const plan = tables.plan();
  auto lookup = detail::lookup_args(tables, bags);
  lookup.plan = plan.get();
  auto const places = kernels::place_capacity(lookup);
  require(places <= kMost && tables.tables() * bags.batch <= kMost,
          kName,
          ": ",
          places,
          " places of ids and ",
          tables.tables() * bags.batch,
          " bags are not below 2^31");

  auto const all_rows = plan->first_rows.back();
  Tensor<std::int32_t, R> bags_of_places(device, {places});
  std::optional<Tensor<float, R>> factors;
  if (plan->has_divisors || bags.weights) {
    factors.emplace(device, Shape{places});
  }
  auto const tell = [&]<Element Row>(Tensor<Row, R> const& rows) {
    kernels::TablePlacesArgs const args{.bags = lookup,
                                        .first_rows = tables.first_rows(),
                                        .rows = rows.data(),
                                        .row_dtype = dtype_of<Row>,
                                        .bags_of_places = bags_of_places.data(),
                                        .factors = factors ? factors->data() : nullptr};
    auto written = writes(rows, bags_of_places);
    if (factors) {
      written.add(*factors);
    }
    issue(
        "embedding_tables_places",
        detail::reads_of(tables, bags),
        written,
        [args, plan](auto stream) { kernels::embedding_tables_places(stream, args); },
        {},
        issued_at);
    return deduplicate(Bags<R>(rows), all_rows, Pooling::sum, issued_at);
  };
  auto const unique = all_rows <= kMost ? tell(Tensor<std::int32_t, R>(device, {places}))
                                        : tell(Tensor<std::int64_t, R>(device, {places}));

  Tensor<std::int64_t, R> table_starts(device, {tables.tables() + 1});
  Tensor<float, R> values(device, {places, plan->widest});
  detail::Workspace<R> const workspace(device,
                                       kernels::embedding_tables_gradient_workspace_bytes(
                                           detail::size_query<R>(*device), places, plan->widest));
  kernels::TablesGradientArgs const args{.plan = plan.get(),
                                         .tables = tables.descriptors(),
                                         .first_rows = tables.first_rows(),
                                         .batch = bags.batch,
                                         .places = places,
                                         .unique_rows = unique.ids.data(),
                                         .starts = unique.starts.data(),
                                         .positions = unique.positions.data(),
                                         .ranks = unique.ranks.data(),
                                         .unique_count = unique.count.data(),
                                         .bags_of_places = bags_of_places.data(),
                                         .factors = factors ? factors->data() : nullptr,
                                         .output_gradient = output_gradient.data(),
                                         .gradient_dtype = dtype_of<T>,
                                         .values = values.data(),
                                         .table_starts = table_starts.data(),
                                         .workspace = workspace.data()};
  auto read = tables.plan_reads();
  read.add(unique.starts);
  read.add(unique.positions);
  read.add(unique.ranks);
  read.add(bags_of_places);
  read.add(unique.ids);
  read.add(unique.count);
  read.add(output_gradient);
  if (factors) {
    read.add(*factors);
  }
  issue(
      kName,
      read,
      workspace.with(writes(values, table_starts)),
      [args, plan](auto stream) { kernels::embedding_tables_gradient(stream, args); },
      {},
      issued_at);
  return {unique.ids, unique.count, table_starts, values};
}

}  // namespace msstream::ops
