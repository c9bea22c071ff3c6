// SPDX-License-Identifier: Apache-2.0
#include "ops/bag_view.hpp"

#include <msstream/base/error.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_table.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/kernels/embedding_tables.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::ops::detail {
namespace {

void require_bags(char const* name,
                  EmbeddingTables<AnyRuntime> const& tables,
                  TableBags<AnyRuntime> const& bags) {
  auto const& ids = bags.ids;
  require(bags.batch >= 0, name, ": a batch of ", bags.batch);
  if (bags.offsets) {
    require(bags.offsets->count() == tables.tables() * bags.batch + 1,
            name,
            ": offsets of shape ",
            bags.offsets->shape(),
            " for ",
            tables.tables(),
            " tables and a batch of ",
            bags.batch,
            "; expected [tables * batch + 1]");
    require(bags.offsets->dtype() == ids.dtype(),
            name,
            ": ids of ",
            name_of(ids.dtype()),
            " with offsets of ",
            name_of(bags.offsets->dtype()),
            "; expected the same type");
  } else {
    require(ids.count() == tables.hotness() * bags.batch,
            name,
            ": ids of shape ",
            ids.shape(),
            " for a hotness of ",
            tables.hotness(),
            " in all tables and a batch of ",
            bags.batch);
  }
  require(!bags.batch_count || bags.batch_count->count() == 1,
          name,
          ": a batch_count of shape ",
          bags.batch_count ? bags.batch_count->shape() : Shape{},
          "; expected a scalar");
  require(!bags.weights || bags.weights->count() == ids.count(),
          name,
          ": weights of shape ",
          bags.weights ? bags.weights->shape() : Shape{},
          " for ids of shape ",
          ids.shape());
  for (std::int64_t t = 0; bags.weights && t < tables.tables(); ++t) {
    require(tables.table(t).pooling != Pooling::max,
            name,
            ": table ",
            t,
            " takes the maximum, which has no weights");
  }
}

/// Returns all tensors that an operation on the tables and the bags reads.
msstream::detail::Uses<R, AccessMode::read> reads_of(EmbeddingTables<AnyRuntime> const& tables,
                                                     TableBags<AnyRuntime> const& bags) {
  auto read = tables.read();
  bags.ids.visit([&](auto const& ids) { read.add(ids); });
  if (bags.offsets) {
    bags.offsets->visit([&](auto const& offsets) { read.add(offsets); });
  }
  if (bags.batch_count) {
    read.add(*bags.batch_count);
  }
  if (bags.weights) {
    read.add(*bags.weights);
  }
  return read;
}

/// Returns the arguments of a lookup's kernel, without the plan, the report and the output.
kernels::TablesLookupArgs lookup_args(EmbeddingTables<AnyRuntime> const& tables,
                                      TableBags<AnyRuntime> const& bags) {
  return {.plan = nullptr,
          .tables = tables.descriptors(),
          .table_of_tile = tables.table_of_tile(),
          .batch = bags.batch,
          .ids = bags.ids.data(),
          .id_dtype = bags.ids.dtype(),
          .capacity = bags.ids.count(),
          .offsets = bags.offsets ? bags.offsets->data() : nullptr,
          .offset_bags = bags.offsets ? bags.offsets->count() - 1 : 0,
          .batch_count = bags.batch_count ? bags.batch_count->data() : nullptr,
          .weights = bags.weights ? bags.weights->data() : nullptr};
}

}  // namespace

}  // namespace msstream::ops::detail
