// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/tables_gradient.hpp"
#include "ops/common/workspace.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/embedding/tables_gradient.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/trace/name_scope.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>
#include <utility>
#include <variant>

namespace msstream::ops::detail {

namespace {

constexpr char const* kName = "embedding_tables_gradient";

/// The result of embedding_tables_places().
struct PlacesOfTables {
  std::int64_t count;
  IdTensor<AnyRuntime> rows;  ///< of int32, if all rows can be numbered by it
  TensorOf<std::int32_t> bags;
  std::optional<Floats> factors;  ///< null if all are 1
};

/// Throws std::invalid_argument unless bags and output gradient fit the tables.
void require_gradient(char const* name,
                      EmbeddingTables<AnyRuntime> const& tables,
                      TableBags<AnyRuntime> const& bags,
                      AnyTensor const& output_gradient,
                      std::int64_t columns_before) {
  require_weights(name, output_gradient.dtype());
  require_bags(name, tables, bags);
  Shape const expected{bags.batch, columns_before + tables.width()};
  require(output_gradient.shape() == expected,
          "{}: output gradient of shape {}; expected {}",
          name,
          output_gradient.shape(),
          expected);
}

PlacesOfTables tell_places(char const* name,
                           EmbeddingTables<AnyRuntime> const& tables,
                           TableBags<AnyRuntime> const& bags,
                           bool has_factors,
                           std::source_location issued_at) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  auto const& device = tables.device();
  auto const& in_use = tables.in_use();
  auto const plan = in_use.plan;
  auto lookup = lookup_args(tables, bags);
  lookup.plan = plan.get();
  auto const places = kernels::place_capacity(lookup);
  require(places <= kMost && tables.tables() * bags.batch <= kMost,
          "{}: {} places of ids and {} bags are not below 2^31",
          name,
          places,
          tables.tables() * bags.batch);
  bool const is_wide = plan->first_rows.back() > kMost;
  PlacesOfTables found{places,
                       is_wide ? IdTensor<AnyRuntime>(TensorOf<std::int64_t>(device, {places}))
                               : IdTensor<AnyRuntime>(TensorOf<std::int32_t>(device, {places})),
                       TensorOf<std::int32_t>(device, {places}),
                       has_factors ? std::optional(Floats(device, {places})) : std::nullopt};
  kernels::TablePlacesArgs const args{.bags = lookup,
                                      .first_rows = in_use.first_rows(),
                                      .rows = found.rows.any().data(),
                                      .row_dtype = found.rows.dtype(),
                                      .bags_of_places = found.bags.data(),
                                      .factors = found.factors ? found.factors->data() : nullptr};
  auto read = in_use.plan_reads();
  add_bags(bags, read);
  auto written = writes(found.bags);
  written.add(found.rows.any());
  if (found.factors) {
    written.add(*found.factors);
  }
  issue(
      "embedding_tables_places",
      read,
      written,
      [args, plan](auto stream) { kernels::embedding_tables_places(stream, args); },
      {},
      issued_at);
  return found;
}

/// Computes the gradients of all rows that a lookup has read.
TablesRowGradients<AnyRuntime> sum_rows(GroupedTables const& grouped,
                                        std::source_location issued_at) {
  auto const& tables = grouped.tables;
  auto const& device = tables.device();
  auto const plan = tables.in_use().plan;
  auto const places = grouped.places;
  TensorOf<std::int64_t> table_starts(device, {tables.tables() + 1});
  Floats values(device, {places, plan->widest});
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::embedding_tables_gradient_workspace_bytes(
                                  stream, places, plan->widest);
                            }));
  auto args = grouped.args();
  args.plan = plan.get();
  args.values = values.data();
  args.table_starts = table_starts.data();
  args.workspace = workspace.data();
  issue(
      kName,
      grouped.reads(),
      workspace.with(writes(values, table_starts)),
      [args, plan](auto stream) { kernels::embedding_tables_gradient(stream, args); },
      {},
      issued_at);
  return {grouped.unique.ids, grouped.unique.count, table_starts, values};
}

}  // namespace

kernels::TablesGradientArgs GroupedTables::args() const {
  auto const& in_use = tables.in_use();
  return {.plan = nullptr,
          .tables = in_use.descriptors(),
          .first_rows = in_use.first_rows(),
          .batch = batch,
          .places = places,
          .unique_rows = unique.ids.data(),
          .starts = unique.starts.data(),
          .positions = unique.positions.data(),
          .ranks = unique.ranks.data(),
          .unique_count = unique.count.data(),
          .bags_of_places = bags_of_places.data(),
          .factors = factors ? factors->data() : nullptr,
          .output_gradient =
              static_cast<std::byte const*>(output_gradient.data()) +
              static_cast<std::size_t>(columns_before) * bytes_of(output_gradient.dtype()),
          .gradient_dtype = output_gradient.dtype(),
          .gradient_stride = output_gradient.shape()[1],
          .values = nullptr,
          .table_starts = nullptr,
          .workspace = nullptr,
          .argmax = argmax ? argmax->data() : nullptr};
}

Reads GroupedTables::reads() const {
  auto read = tables.in_use().plan_reads();
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
  if (argmax) {
    read.add(*argmax);
  }
  return read;
}

GroupedTables group_tables(EmbeddingTables<AnyRuntime> const& tables,
                           TableBags<AnyRuntime> const& bags,
                           AnyTensor const& output_gradient,
                           std::optional<TensorOf<std::int32_t>> const& argmax,
                           std::int64_t columns_before,
                           std::source_location issued_at) {
  require_gradient(kName, tables, bags, output_gradient, columns_before);
  require_argmax(kName, tables, bags, argmax);
  require(argmax || !needs_argmax(tables, bags),
          "{}: tables of Pooling::max, and no argmax of the lookup",
          kName);
  auto const& plan = *tables.in_use().plan;
  auto found = tell_places(kName, tables, bags, plan.has_divisors || bags.weights, issued_at);
  auto unique = deduplicate(AnyBags(found.rows), plan.first_rows.back(), Pooling::sum, issued_at);
  return {tables,
          bags.batch,
          found.count,
          std::move(unique),
          std::move(found.bags),
          std::move(found.factors),
          output_gradient,
          argmax,
          columns_before};
}

TablesRowGradients<AnyRuntime> embedding_tables_gradient(
    EmbeddingTables<AnyRuntime> const& tables,
    TableBags<AnyRuntime> const& bags,
    AnyTensor const& output_gradient,
    std::optional<TensorOf<std::int32_t>> const& argmax,
    std::source_location issued_at) {
  return sum_rows(group_tables(tables, bags, output_gradient, argmax, 0, issued_at), issued_at);
}

TablesGradient::TablesGradient(GroupedTables grouped,
                               std::shared_ptr<msstream::detail::StreamGroup> group,
                               std::source_location issued_at)
    : gradient_(Later{std::move(grouped), std::move(group), NameScope::kept(), issued_at}) {}

TablesRowGradients<AnyRuntime> const& TablesGradient::rows() const {
  if (auto const* const later = std::get_if<Later>(&gradient_)) {
    std::optional<msstream::detail::AnyStreamScope> scope;
    if (later->group != nullptr) {
      scope.emplace(later->group, StreamScopeOptions{}, later->issued_at);
    }
    std::optional<NameScope> named;
    if (later->names != nullptr) {
      named.emplace(later->names, later->issued_at);
    }
    auto rows = sum_rows(later->grouped, later->issued_at);
    named.reset();
    scope.reset();
    gradient_ = std::move(rows);
  }
  return std::get<TablesRowGradients<AnyRuntime>>(gradient_);
}

Floats embedding_tables_weight_gradient(EmbeddingTables<AnyRuntime> const& tables,
                                        TableBags<AnyRuntime> const& bags,
                                        Floats const& output_gradient,
                                        std::source_location issued_at) {
  constexpr char const* kWeights = "embedding_tables_weight_gradient";
  require_gradient(kWeights, tables, bags, output_gradient.any(), 0);
  auto const& in_use = tables.in_use();
  auto const plan = in_use.plan;
  auto const found = tell_places(kWeights, tables, bags, false, issued_at);
  Floats weight_gradient(tables.device(), bags.ids.shape());
  kernels::TablesWeightGradientArgs const args{.plan = plan.get(),
                                               .tables = in_use.descriptors(),
                                               .first_rows = in_use.first_rows(),
                                               .batch = bags.batch,
                                               .capacity = bags.ids.count(),
                                               .rows = found.rows.data(),
                                               .row_dtype = found.rows.dtype(),
                                               .bags_of_places = found.bags.data(),
                                               .output_gradient = output_gradient.data(),
                                               .weight_gradient = weight_gradient.data()};
  auto read = in_use.read;
  read.add(found.rows.any());
  read.add(found.bags);
  read.add(output_gradient);
  issue(
      kWeights,
      read,
      writes(weight_gradient),
      [args, plan](auto stream) { kernels::embedding_tables_weight_gradient(stream, args); },
      {},
      issued_at);
  return weight_gradient;
}

}  // namespace msstream::ops::detail
