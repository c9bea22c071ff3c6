// SPDX-License-Identifier: Apache-2.0
#include "trainer.hpp"
#include "training_run.hpp"

namespace train_wdl {

nlohmann::ordered_json train_on_host(TrainOptions const& options,
                                     TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts) {
  return Trainer<ms::Host>(options, data, world, parts).run();
}

}  // namespace train_wdl
