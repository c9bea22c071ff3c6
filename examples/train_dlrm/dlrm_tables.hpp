// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dlrm_shape.hpp"
#include "training/training_data.hpp"

#include <msstream/step/table_plan.hpp>

#include <cstdint>
#include <vector>

namespace train_dlrm {

/// Returns the most ids that a row has in each field: the hotness, or the longest list of the data.
[[nodiscard]] std::vector<std::int64_t> most_ids_of_fields(DlrmShape const& shape,
                                                           ms::training::TrainingData const& data);

/// Returns the tables of the model, as ShardedTables must know them. There is room for the ids of
/// any batch of the data.
[[nodiscard]] std::vector<ms::TableSpec> table_specs(DlrmShape const& shape,
                                                     ms::training::TrainingData const& data);

}  // namespace train_dlrm
