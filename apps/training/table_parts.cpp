// SPDX-License-Identifier: Apache-2.0
#include "training/table_parts.hpp"

#include "cli/outputs.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/optimizer.hpp>

#include <filesystem>
#include <iostream>
#include <stdexcept>

namespace msstream::training {

std::optional<TableParts> table_parts(std::vector<TableSpec> specs,
                                      RankOptions const& chosen,
                                      UpdateOptions const& update,
                                      bool quiet) {
  if (chosen.parallel != Parallel::sharded) {
    return std::nullopt;
  }
  PlanTablesOptions const how{.state_bytes_per_element = 4 * ops::states_of(update.optimizer)};
  bool const is_first = chosen.process.rank() == 0;
  TablePlan plan;
  if (!chosen.plan.empty() && std::filesystem::exists(chosen.plan)) {
    plan = load_plan(chosen.plan);
    require(plan.ranks == chosen.ranks,
            "{}: a plan for {} ranks; this run has {}",
            chosen.plan,
            plan.ranks,
            chosen.ranks);
    try {
      require_plan(specs, plan);
    } catch (std::invalid_argument const& error) {
      throw std::invalid_argument(chosen.plan + ": " + error.what());
    }
  } else {
    plan = plan_tables(specs, chosen.ranks, how);
    if (!chosen.plan.empty() && is_first) {
      cli::attempt_output("--plan", [&] { save_plan(chosen.plan, plan); });
    }
  }
  if (is_first && !quiet) {
    std::cerr << describe_plan(specs, plan, how);
  }
  return TableParts{std::move(specs), std::move(plan)};
}

}  // namespace msstream::training
