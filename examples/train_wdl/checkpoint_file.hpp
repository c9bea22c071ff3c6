// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_options.hpp"
#include "training_data.hpp"

#include <msstream/checkpoint/safetensors.hpp>

namespace train_wdl {

/// Returns the texts of a checkpoint: the options that must be equal in a run that resumes from it.
[[nodiscard]] ms::checkpoint::Metadata checkpoint_metadata(TrainOptions const& options,
                                                           TrainingData const& data);

/// Throws std::invalid_argument, whose message says what differs, if the file to resume from does
/// not fit the options of this run.
void require_same_run(TrainOptions const& options, TrainingData const& data);

}  // namespace train_wdl
