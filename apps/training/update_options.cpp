// SPDX-License-Identifier: Apache-2.0
#include "training/update_options.hpp"

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
  return {{"optimizer", name_of(chosen.optimizer)}, {"lr", chosen.learning_rate}};
}

std::string_view name_of(ops::OptimizerKind kind) {
  switch (kind) {
    case ops::OptimizerKind::sgd:
      return "sgd";
    case ops::OptimizerKind::momentum:
      return "momentum";
    case ops::OptimizerKind::adagrad:
      return "adagrad";
    case ops::OptimizerKind::rowwise_adagrad:
      return "rowwise_adagrad";
    case ops::OptimizerKind::adam:
      break;
  }
  return "adam";
}

}  // namespace msstream::training
