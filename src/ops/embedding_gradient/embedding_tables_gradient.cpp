// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/tables_gradient.hpp"
#include "ops/common/workspace.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/embedding/embedding_tables.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {

TablesRowGradients<AnyRuntime> embedding_tables_gradient(EmbeddingTables<AnyRuntime> const& tables,
                                                         TableBags<AnyRuntime> const& bags,
                                                         AnyTensor const& output_gradient,
                                                         std::source_location issued_at) {
  constexpr char const* kName = "embedding_tables_gradient";
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require_weights(kName, output_gradient.dtype());
  require_bags(kName, tables, bags);
  require(output_gradient.shape() == (Shape{bags.batch, tables.width()}),
          "{}: output gradient of shape {}; expected {}",
          kName,
          output_gradient.shape(),
          Shape{bags.batch, tables.width()});
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    require(tables.table(t).pooling != Pooling::max, "{}: table {} takes the maximum", kName, t);
  }
  auto const& device = tables.device();
  auto const& in_use = tables.in_use();
  auto const plan = in_use.plan;
  auto lookup = lookup_args(tables, bags);
  lookup.plan = plan.get();
  auto const places = kernels::place_capacity(lookup);
  require(places <= kMost && tables.tables() * bags.batch <= kMost,
          "{}: {} places of ids and {} bags are not below 2^31",
          kName,
          places,
          tables.tables() * bags.batch);

  auto const all_rows = plan->first_rows.back();
  TensorOf<std::int32_t> bags_of_places(device, {places});
  std::optional<Floats> factors;
  if (plan->has_divisors || bags.weights) {
    factors.emplace(device, Shape{places});
  }
  auto const tell = [&]<Element Row>(TensorOf<Row> const& rows) {
    kernels::TablePlacesArgs const args{.bags = lookup,
                                        .first_rows = in_use.first_rows(),
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
        reads_of(tables, bags),
        written,
        [args, plan](auto stream) { kernels::embedding_tables_places(stream, args); },
        {},
        issued_at);
    return deduplicate(AnyBags(rows), all_rows, Pooling::sum, issued_at);
  };
  auto const unique = all_rows <= kMost ? tell(TensorOf<std::int32_t>(device, {places}))
                                        : tell(TensorOf<std::int64_t>(device, {places}));

  TensorOf<std::int64_t> table_starts(device, {tables.tables() + 1});
  Floats values(device, {places, plan->widest});
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::embedding_tables_gradient_workspace_bytes(
                                  stream, places, plan->widest);
                            }));
  kernels::TablesGradientArgs const args{.plan = plan.get(),
                                         .tables = in_use.descriptors(),
                                         .first_rows = in_use.first_rows(),
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
                                         .gradient_dtype = output_gradient.dtype(),
                                         .values = values.data(),
                                         .table_starts = table_starts.data(),
                                         .workspace = workspace.data()};
  auto read = in_use.plan_reads();
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

}  // namespace msstream::ops::detail
