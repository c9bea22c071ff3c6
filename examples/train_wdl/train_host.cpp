// SPDX-License-Identifier: Apache-2.0
#include "trace_run.hpp"
#include "training_run.hpp"

namespace train_wdl {

nlohmann::ordered_json train_on_host(TrainOptions const& options,
                                     TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts) {
  return trace_and_train<ms::Host>(options, data, world, parts);
}

}  // namespace train_wdl
