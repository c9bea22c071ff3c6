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
  options.add_flag("--update-each-table",
                   chosen.each_table,
                   "an update for each table, not one for all tables of a group; the results are "
                   "the same, the host launches more");
}

nlohmann::ordered_json describe(UpdateOptions const& chosen) {
  return {{"optimizer", ops::name_of(chosen.optimizer)},
          {"lr", chosen.learning_rate},
          {"tables_together", !chosen.each_table}};
}

}  // namespace msstream::training
