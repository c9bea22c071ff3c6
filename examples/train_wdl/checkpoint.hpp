// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint_file.hpp"
#include "wide_deep.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/batch.hpp>

#include <utility>

namespace train_wdl {

/// Returns everything that a run must save to continue with the same bits, and a server to serve:
/// parameters, optimizer state and transforms, by name.
template <ms::Runtime R>
ms::checkpoint::Tensors saved_tensors(TrainingData const& data,
                                      WideDeep<R> const& model,
                                      ms::Optimizer<R> const& optimizer) {
  ms::checkpoint::Tensors tensors;
  tensors.add(model.parameters());
  tensors.add(optimizer);
  tensors.add(data.transforms);
  return tensors;
}

/// Saves a checkpoint of the training, whose last batch is in front of `position`. The file is
/// replaced atomically: if the run is killed meanwhile, the earlier file is still whole.
template <ms::Runtime R>
void save_checkpoint(TrainOptions const& options,
                     TrainingData const& data,
                     WideDeep<R> const& model,
                     ms::Optimizer<R> const& optimizer,
                     ms::data::LoaderPosition const& position) {
  auto metadata = checkpoint_metadata(options, data);
  metadata["position"] = to_string(position);
  ms::checkpoint::save(options.save,
                       saved_tensors(data, model, optimizer),
                       {.step = position.batches, .metadata = std::move(metadata)});
}

/// Loads the tensors of a checkpoint, and returns the position in the data at which it was saved.
/// If the file does not fit the options and the model, throws and changes nothing.
template <ms::Runtime R>
ms::data::LoaderPosition load_checkpoint(TrainOptions const& options,
                                         TrainingData const& data,
                                         WideDeep<R> const& model,
                                         ms::Optimizer<R> const& optimizer) {
  auto position = position_in_same_run(options, data);
  ms::checkpoint::load(options.resume, saved_tensors(data, model, optimizer));
  return position;
}

}  // namespace train_wdl
