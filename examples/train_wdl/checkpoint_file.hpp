// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_options.hpp"
#include "training_data.hpp"

#include <msstream/checkpoint/safetensors.hpp>
#include <msstream/data/batch.hpp>

namespace train_wdl {

/// Returns the texts of a checkpoint: the options that must be equal in a run that resumes from it.
[[nodiscard]] ms::checkpoint::Metadata checkpoint_metadata(TrainOptions const& options,
                                                           TrainingData const& data);

/// Returns the position in the data that the file to resume from has. Throws std::invalid_argument,
/// whose message says what differs, if the file does not fit the options of this run.
[[nodiscard]] ms::data::LoaderPosition position_in_same_run(TrainOptions const& options,
                                                            TrainingData const& data);

}  // namespace train_wdl
