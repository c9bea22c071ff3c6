// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint_file.hpp"
#include "wide_deep.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/checkpoint/sharded.hpp>
#include <msstream/data/batch.hpp>

#include <utility>

namespace train_wdl {

/// Returns parameters and optimizer state by name.
template <ms::Runtime R>
ms::checkpoint::Tensors trained_tensors(WideDeep<R> const& model,
                                        ms::Optimizer<R> const& optimizer) {
  ms::checkpoint::Tensors tensors;
  tensors.add(model.parameters());
  tensors.add(optimizer);
  return tensors;
}

/// Returns everything that a run must save to continue with the same bits, and a server to serve:
/// parameters, optimizer state and transforms, by name.
template <ms::Runtime R>
ms::checkpoint::Tensors saved_tensors(TrainingData const& data,
                                      WideDeep<R> const& model,
                                      ms::Optimizer<R> const& optimizer) {
  auto tensors = trained_tensors(model, optimizer);
  tensors.add(data.transforms);
  return tensors;
}

/// Saves a checkpoint of the training, whose last batch is in front of `position`. The file is
/// replaced atomically: if the run is killed meanwhile, the earlier file is still whole. If tables
/// are in parts, all ranks call it, and the file has whole tables.
template <ms::Runtime R>
void save_checkpoint(TrainOptions const& options,
                     TrainingData const& data,
                     WideDeep<R> const& model,
                     ms::Optimizer<R> const& optimizer,
                     ms::data::LoaderPosition const& position) {
  auto metadata = checkpoint_metadata(options, data);
  metadata["position"] = to_string(position);
  if (data.counts) {
    metadata["counts"] = to_string(*data.counts);
  }
  auto const tensors = saved_tensors(data, model, optimizer);
  ms::checkpoint::Header const header{.step = position.batches, .metadata = std::move(metadata)};
  if (model.in_parts()) {
    ms::checkpoint::save_sharded(options.save, model.in_parts()->tables(), tensors, header);
  } else {
    ms::checkpoint::save(options.save, tensors, header);
  }
}

/// Loads the tensors of a checkpoint, and returns the position in the data at which it was saved.
/// If the file does not fit the options and the model, throws and changes nothing. If tables are in
/// parts, all ranks call it. Ranks that are threads share the transforms, which rank 0 then loads.
template <ms::Runtime R>
ms::data::LoaderPosition load_checkpoint(TrainOptions const& options,
                                         TrainingData const& data,
                                         WideDeep<R> const& model,
                                         ms::Optimizer<R> const& optimizer,
                                         ms::comm::World const& world) {
  auto position = position_in_same_run(options, data);
  if (model.in_parts()) {
    bool const has_transforms =
        world.rank() == 0 || world.launch() != ms::comm::World::Launch::threads;
    ms::checkpoint::load_sharded(
        options.resume,
        model.in_parts()->tables(),
        has_transforms ? saved_tensors(data, model, optimizer) : trained_tensors(model, optimizer),
        {.except = ms::training::not_resumed(options), .allow_unexpected = !has_transforms});
  } else {
    ms::checkpoint::load(options.resume,
                         saved_tensors(data, model, optimizer),
                         {.except = ms::training::not_resumed(options)});
  }
  return position;
}

}  // namespace train_wdl
