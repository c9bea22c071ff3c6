// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_options.hpp"
#include "training/table_parts.hpp"
#include "training_data.hpp"

#include <msstream/comm/world.hpp>

#include <nlohmann/json_fwd.hpp>

#include <optional>

namespace train_wdl {

/// Trains one rank as the options say, writes the files that they name, and returns the report.
/// Ranks that are threads share the data; a rank that is alone takes the training rows out of it.
/// `parts`, if there are any, are the tables in parts on all ranks. Throws if training fails.
nlohmann::ordered_json train_on_host(TrainOptions const& options,
                                     TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts);
nlohmann::ordered_json train_on_cuda(TrainOptions const& options,
                                     TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts);
/// Trains on a checking runtime, writes the files that the options name, and returns the report, in
/// which "check" has the findings. Throws if training fails.
nlohmann::ordered_json train_checked_on_host(TrainOptions const& options,
                                             TrainingData& data,
                                             ms::comm::World const& world,
                                             std::optional<ms::training::TableParts> const& parts);
nlohmann::ordered_json train_checked_on_cuda(TrainOptions const& options,
                                             TrainingData& data,
                                             ms::comm::World const& world,
                                             std::optional<ms::training::TableParts> const& parts);

}  // namespace train_wdl
