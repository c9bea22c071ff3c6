// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_options.hpp"
#include "training_data.hpp"

#include <nlohmann/json_fwd.hpp>

namespace train_wdl {

/// Trains as the options say, writes the files that they name, and returns the report. Throws if
/// training fails.
nlohmann::ordered_json train_on_host(TrainOptions const& options, TrainingData data);
nlohmann::ordered_json train_on_cuda(TrainOptions const& options, TrainingData data);
/// Trains on a checking runtime, writes the files that the options name, and returns the report, in
/// which "check" has the findings. Throws if training fails.
nlohmann::ordered_json train_checked_on_host(TrainOptions const& options, TrainingData data);
nlohmann::ordered_json train_checked_on_cuda(TrainOptions const& options, TrainingData data);

}  // namespace train_wdl
