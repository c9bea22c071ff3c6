// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ple_shape.hpp"
#include "training/lookups_in_parts.hpp"

#include <msstream/memory/device.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace train_ple {

/// The lookups of a PLE model in tables that are in parts on all ranks; nothing if the model has
/// its tables itself.
template <ms::Runtime R>
using InParts = std::optional<ms::training::LookupsInParts<R>>;

/// Returns the tables of a model, as ShardedTables must know them. `hotness` is the number of keys
/// of a row in each field.
inline std::vector<ms::TableSpec> table_specs(PleShape const& shape, std::int64_t hotness) {
  std::vector<ms::TableSpec> specs;
  for (std::int64_t field = 0; field < shape.fields(); ++field) {
    specs.push_back({.name = table_name(field),
                     .rows = shape.table_rows[static_cast<std::size_t>(field)],
                     .width = shape.embedding_dim,
                     .pooling = ms::ops::Pooling::mean,
                     .hotness = hotness});
  }
  return specs;
}

/// Returns the ids of a row's keys in the table of a field, as bags. `keys` are those of all
/// fields, [fields, rows, hotness].
template <ms::Runtime R>
ms::ops::Bags<R> ids_of_field(PleShape const& shape,
                              ms::Tensor<std::int64_t, R> const& keys,
                              std::int64_t field) {
  auto const of_field = keys.rows(field, field + 1).reshaped({keys.shape()[1], keys.shape()[2]});
  return ms::ops::hash_to_bucket(of_field, shape.table_rows[static_cast<std::size_t>(field)]);
}

/// Returns the embeddings of a batch in all fields, [rows, fields * embedding_dim], from tables in
/// parts. All ranks call it.
template <ms::Runtime R>
ms::Tensor<float, R> look_up_in_parts(ms::training::LookupsInParts<R> const& in_parts,
                                      PleShape const& shape,
                                      ms::GradientTape<R>& tape,
                                      ms::StreamPool<R>& pool,
                                      DeviceBatch<R> const& batch) {
  return in_parts.lookup(tape, pool, batch.keys, batch.next_keys, [&](auto const& keys) {
    std::vector<ms::ops::Bags<R>> ids;
    for (std::int64_t field = 0; field < shape.fields(); ++field) {
      ids.push_back(ids_of_field(shape, keys, field));
    }
    return ms::ops::joined_bags(ids);
  });
}

}  // namespace train_ple
