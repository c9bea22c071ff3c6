// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint_file.hpp"
#include "wide_deep.hpp"

#include <msstream/checkpoint/checkpoint.hpp>

#include <cstdint>

namespace train_wdl {

/// Returns everything that a run must save to continue with the same bits: parameters and optimizer
/// state, by name.
template <ms::Runtime R>
ms::checkpoint::Tensors saved_tensors(WideDeep<R> const& model, ms::Optimizer<R> const& optimizer) {
  ms::checkpoint::Tensors tensors;
  tensors.add(model.parameters());
  tensors.add(optimizer);
  return tensors;
}

/// Saves a checkpoint of the training. The file is replaced atomically: if the run is killed
/// meanwhile, the earlier file is still whole.
template <ms::Runtime R>
void save_checkpoint(TrainOptions const& options,
                     TrainingData const& data,
                     WideDeep<R> const& model,
                     ms::Optimizer<R> const& optimizer,
                     std::int64_t step) {
  ms::checkpoint::save(options.save,
                       saved_tensors(model, optimizer),
                       {.step = step, .metadata = checkpoint_metadata(options, data)});
}

/// Loads the tensors of a checkpoint, and returns the step at which it was saved. If the file does
/// not fit the options and the model, throws and changes nothing.
template <ms::Runtime R>
std::int64_t load_checkpoint(TrainOptions const& options,
                             TrainingData const& data,
                             WideDeep<R> const& model,
                             ms::Optimizer<R> const& optimizer) {
  require_same_run(options, data);
  return ms::checkpoint::load(options.resume, saved_tensors(model, optimizer)).step;
}

}  // namespace train_wdl
