// SPDX-License-Identifier: Apache-2.0
#include "train_checked.hpp"
#include "training_run.hpp"

#include <utility>

namespace train_wdl {

nlohmann::ordered_json train_checked_on_host(TrainOptions const& options, TrainingData data) {
  return train_checked<ms::Host>(options, std::move(data));
}

}  // namespace train_wdl
