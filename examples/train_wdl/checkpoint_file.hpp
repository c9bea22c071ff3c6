// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/safetensors.hpp"
#include "train_options.hpp"
#include "training_data.hpp"

#include <cstdint>

namespace train_wdl {

/// Returns the metadata of a checkpoint: its step, and the options that must be equal in a run that
/// resumes from it.
[[nodiscard]] msstream::datasets::TensorMetadata checkpoint_metadata(TrainOptions const& options,
                                                                     TrainingData const& data,
                                                                     std::int64_t step);

/// Returns the step of a checkpoint. Throws std::invalid_argument, whose message says what differs,
/// if the file does not fit the options of this run.
[[nodiscard]] std::int64_t step_of_checkpoint(msstream::datasets::SafetensorsFile const& file,
                                              TrainOptions const& options,
                                              TrainingData const& data);

}  // namespace train_wdl
