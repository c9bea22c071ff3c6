// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dlrm_options.hpp"
#include "training/same_run.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/checkpoint/sharded.hpp>
#include <msstream/comm/world.hpp>
#include <msstream/data/batch.hpp>

#include <utility>

namespace train_dlrm {

/// Returns the texts of a checkpoint: the options that must be equal in a run that resumes from it.
[[nodiscard]] ms::checkpoint::Metadata checkpoint_metadata(DlrmOptions const& options,
                                                           ms::training::TrainingData const& data);

/// Saves everything that a run needs to continue with the same bits: parameters, optimizer state
/// with the loss scale, and transforms. The last batch trained on is in front of `position`. The
/// file is replaced atomically. If tables are in parts, all ranks call it, and the file has whole
/// tables.
template <class Training>
void save_checkpoint(DlrmOptions const& options,
                     ms::training::TrainingData const& data,
                     Training const& training,
                     ms::data::LoaderPosition const& position) {
  auto metadata = checkpoint_metadata(options, data);
  metadata["position"] = to_string(position);
  if (data.counts) {
    metadata["counts"] = to_string(*data.counts);
  }
  ms::checkpoint::Tensors const tensors(
      training.model().parameters(), training.optimizer(), data.transforms);
  ms::checkpoint::Header const header{.step = position.batches, .metadata = std::move(metadata)};
  if (auto const& in_parts = training.model().in_parts()) {
    ms::checkpoint::save_sharded(options.save, in_parts->tables(), tensors, header);
  } else {
    ms::checkpoint::save(options.save, tensors, header);
  }
}

/// Loads the checkpoint of --resume, and returns its position in the data. If the file does not fit
/// the options and the model, throws and changes nothing. If tables are in parts, all ranks call
/// it. Ranks that are threads share the transforms, which rank 0 then loads.
template <class Training>
[[nodiscard]] ms::data::LoaderPosition load_checkpoint(DlrmOptions const& options,
                                                       ms::training::TrainingData const& data,
                                                       Training const& training,
                                                       ms::comm::World const& world) {
  auto position = ms::training::position_in_same_run(
      options.resume, "train_dlrm", checkpoint_metadata(options, data));
  ms::checkpoint::Tensors tensors(training.model().parameters(), training.optimizer());
  auto const& in_parts = training.model().in_parts();
  bool const has_transforms =
      !in_parts || world.rank() == 0 || world.launch() != ms::comm::World::Launch::threads;
  if (has_transforms) {
    tensors.add(data.transforms);
  }
  auto const except = ms::training::not_resumed(options);
  if (in_parts) {
    ms::checkpoint::load_sharded(options.resume,
                                 in_parts->tables(),
                                 tensors,
                                 {.except = except, .allow_unexpected = !has_transforms});
  } else {
    ms::checkpoint::load(options.resume, tensors, {.except = except});
  }
  return position;
}

}  // namespace train_dlrm
