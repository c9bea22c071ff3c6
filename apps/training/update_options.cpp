// SPDX-License-Identifier: Apache-2.0
#include "training/update_options.hpp"

#include <msstream/ops/optimizer.hpp>

#include <nlohmann/json.hpp>

namespace msstream::training {

void add_options(cli::Options& options, UpdateOptions& chosen) {
  options.add_choice("--optimizer",
                     chosen.optimizer,
                     {{"adam", ops::OptimizerKind::adam},
                      {"adagrad", ops::OptimizerKind::adagrad},
                      {"sgd", ops::OptimizerKind::sgd}},
                     "update rule");
  options.add<float>("--lr", chosen.learning_rate, "learning rate", {0.0F, 1e6F});
}

nlohmann::ordered_json describe(UpdateOptions const& chosen) {
  return {{"optimizer", ops::name_of(chosen.optimizer)}, {"lr", chosen.learning_rate}};
}

}  // namespace msstream::training
