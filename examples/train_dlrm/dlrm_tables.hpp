// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dlrm_shape.hpp"
#include "training/training_data.hpp"

#include <msstream/step/table_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace train_dlrm {

/// Returns the most ids that a row has in each field: the hotness, or the longest list of the data.
inline std::vector<std::int64_t> most_ids_of_fields(DlrmShape const& shape,
                                                    ms::training::TrainingData const& data) {
  std::vector<std::int64_t> most;
  for (std::size_t field = 0; field < kFields; ++field) {
    most.push_back(shape.is_multi_hot ? std::min(data.most_keys[field], shape.max_hotness)
                                      : shape.hotness(field));
  }
  return most;
}

/// Returns the tables of a model, as ShardedTables must know them. There is room for `most_ids` ids
/// of each row in a field.
inline std::vector<ms::TableSpec> table_specs(DlrmShape const& shape,
                                              std::vector<std::int64_t> const& most_ids) {
  std::vector<ms::TableSpec> specs;
  for (std::size_t field = 0; field < kFields; ++field) {
    // All lists of a field may be empty.
    specs.push_back({.name = table_name(field),
                     .rows = shape.rows(field),
                     .width = shape.dimension,
                     .hotness = std::max<std::int64_t>(most_ids[field], 1),
                     .dtype = shape.table_dtype()});
  }
  return specs;
}

}  // namespace train_dlrm
