// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_options.hpp"
#include "training_data.hpp"
#include "wide_deep.hpp"

#include <msstream/step/table_plan.hpp>

#include <vector>

namespace train_wdl {

/// Returns the shape of the model that the options describe.
[[nodiscard]] WideDeepShape shape_of(TrainOptions const& options, TrainingData const& data);

/// Returns the tables of the model, as ShardedTables must know them: those of the deep part, then
/// those of the wide part.
[[nodiscard]] std::vector<ms::TableSpec> table_specs(WideDeepShape const& shape);

}  // namespace train_wdl
