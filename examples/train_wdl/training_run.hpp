// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_options.hpp"
#include "training_data.hpp"

#include <nlohmann/json_fwd.hpp>

namespace train_wdl {

/// Trains as asked, writes the files asked for, and returns the report. Throws what goes wrong.
nlohmann::ordered_json train_on_host(TrainOptions const& options, TrainingData const& data);
nlohmann::ordered_json train_on_cuda(TrainOptions const& options, TrainingData const& data);
/// The same on a runtime that checks; "check" in the report has what was found.
nlohmann::ordered_json train_checked_on_host(TrainOptions const& options, TrainingData const& data);
nlohmann::ordered_json train_checked_on_cuda(TrainOptions const& options, TrainingData const& data);

}  // namespace train_wdl
