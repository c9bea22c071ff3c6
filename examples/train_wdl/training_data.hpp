// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_options.hpp"
#include "training/training_data.hpp"

namespace train_wdl {

using ms::training::TrainingData;

/// Reads or generates the data. Throws DataError, and cli::UsageError if no row is
/// left to train on.
[[nodiscard]] TrainingData load_training_data(TrainOptions const& options);

}  // namespace train_wdl
