// SPDX-License-Identifier: Apache-2.0
#include "trainer.hpp"
#include "training_run.hpp"

#include <utility>

namespace train_wdl {

nlohmann::ordered_json train_on_cuda(TrainOptions const& options, TrainingData data) {
  return Trainer<ms::Cuda>(options, std::move(data)).run();
}

}  // namespace train_wdl
