// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_options.hpp"
#include "training_data.hpp"

#include <msstream/support/safetensors.hpp>

#include <cstdint>

namespace train_wdl {

/// What a saved run says of itself, besides its tensors: how far it was, and what a run that goes
/// on must agree on.
[[nodiscard]] msstream::support::TensorMetadata checkpoint_metadata(TrainOptions const& options,
                                                                    TrainingData const& data,
                                                                    std::int64_t step);

/// The step at which a saved run was. Throws std::invalid_argument that names what differs from
/// this run's options.
[[nodiscard]] std::int64_t step_of_checkpoint(msstream::support::SafetensorsFile const& file,
                                              TrainOptions const& options,
                                              TrainingData const& data);

}  // namespace train_wdl
