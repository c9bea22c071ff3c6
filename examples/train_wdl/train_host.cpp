// SPDX-License-Identifier: Apache-2.0
#include "trainer.hpp"
#include "training_run.hpp"

#include <utility>

namespace train_wdl {

nlohmann::ordered_json train_on_host(TrainOptions const& options, TrainingData data) {
  return Trainer<ms::Host>(options, std::move(data)).run();
}

}  // namespace train_wdl
