// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dlrm_options.hpp"
#include "training/same_run.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/batch.hpp>

#include <utility>

namespace train_dlrm {

/// Returns the texts of a checkpoint: the options that must be equal in a run that resumes from it.
[[nodiscard]] ms::checkpoint::Metadata checkpoint_metadata(DlrmOptions const& options,
                                                           ms::training::TrainingData const& data);

/// Saves everything that a run needs to continue with the same bits: parameters, optimizer state
/// with the loss scale, and transforms. The last batch trained on is in front of `position`. The
/// file is replaced atomically.
template <class Training>
void save_checkpoint(DlrmOptions const& options,
                     ms::training::TrainingData const& data,
                     Training const& training,
                     ms::data::LoaderPosition const& position) {
  auto metadata = checkpoint_metadata(options, data);
  metadata["position"] = to_string(position);
  ms::checkpoint::save(
      options.save,
      ms::checkpoint::Tensors(training.model().parameters(), training.optimizer(), data.transforms),
      {.step = position.batches, .metadata = std::move(metadata)});
}

/// Loads the checkpoint of --resume, and returns its position in the data. If the file does not fit
/// the options and the model, throws and changes nothing.
template <class Training>
[[nodiscard]] ms::data::LoaderPosition load_checkpoint(DlrmOptions const& options,
                                                       ms::training::TrainingData const& data,
                                                       Training const& training) {
  auto position = ms::training::position_in_same_run(
      options.resume, "train_dlrm", checkpoint_metadata(options, data));
  ms::checkpoint::load(options.resume,
                       ms::checkpoint::Tensors(
                           training.model().parameters(), training.optimizer(), data.transforms));
  return position;
}

}  // namespace train_dlrm
