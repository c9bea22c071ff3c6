// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/safetensors.hpp"
#include "train_options.hpp"
#include "training_data.hpp"

#include <cstdint>

namespace train_wdl {

/// Returns the metadata of a saved run: its step, and the options that a run that resumes from it
/// must have, too.
[[nodiscard]] msstream::data::TensorMetadata checkpoint_metadata(TrainOptions const& options,
                                                                 TrainingData const& data,
                                                                 std::int64_t step);

/// Returns the step of a saved run. Throws std::invalid_argument that names the difference if the
/// file does not fit this run's options.
[[nodiscard]] std::int64_t step_of_checkpoint(msstream::data::SafetensorsFile const& file,
                                              TrainOptions const& options,
                                              TrainingData const& data);

}  // namespace train_wdl
