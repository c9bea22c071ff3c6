// SPDX-License-Identifier: Apache-2.0
#include "dlrm_tables.hpp"

#include <algorithm>
#include <cstddef>

namespace train_dlrm {

std::vector<std::int64_t> most_ids_of_fields(DlrmShape const& shape,
                                             ms::training::TrainingData const& data) {
  std::vector<std::int64_t> most;
  for (std::size_t field = 0; field < kFields; ++field) {
    most.push_back(shape.is_multi_hot ? std::min(data.most_keys[field], shape.max_hotness)
                                      : shape.hotness(field));
  }
  return most;
}

std::vector<ms::TableSpec> table_specs(DlrmShape const& shape,
                                       ms::training::TrainingData const& data) {
  auto const most_ids = most_ids_of_fields(shape, data);
  std::vector<ms::TableSpec> specs;
  for (std::size_t field = 0; field < kFields; ++field) {
    // All lists of a field may be empty.
    specs.push_back({.name = table_name(field),
                     .rows = shape.rows(field),
                     .width = shape.dimension,
                     .hotness = std::max<std::int64_t>(most_ids[field], 1)});
  }
  return specs;
}

}  // namespace train_dlrm
