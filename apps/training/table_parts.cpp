// SPDX-License-Identifier: Apache-2.0
#include "training/table_parts.hpp"

#include "cli/outputs.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/optimizer.hpp>

#include <fmt/core.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <utility>

namespace msstream::training {

namespace {

/// Returns what the state of the optimizer takes.
[[nodiscard]] PlanTablesOptions sizes_of(ops::OptimizerKind kind) {
  if (kind == ops::OptimizerKind::rowwise_adagrad) {
    return {.state_bytes_per_row = 4};
  }
  return {.state_bytes_per_element = 4 * ops::states_of(kind)};
}

/// Throws std::invalid_argument if the rule has one number a row, and a table is divided by
/// columns: each part would have numbers of its own. So it would not learn what the whole table
/// learns, and a checkpoint would fit no other number of ranks.
void require_whole_rows(TablePlan const& plan, ops::OptimizerKind kind) {
  for (auto const& at : plan.tables) {
    require(kind != ops::OptimizerKind::rowwise_adagrad || at.sharding != Sharding::column_wise ||
                at.ranks.size() == 1,
            "table '{}': column_wise, with one number a row by the update rule {}; expected "
            "row_wise, table_wise or replicated, or --optimizer adam, adagrad or sgd",
            at.table,
            ops::name_of(kind));
  }
}

/// Loads the plan in the file of --plan. Throws std::invalid_argument, with the option and the
/// file, if it is none for these tables, ranks and update rule.
[[nodiscard]] TablePlan plan_of_file(std::vector<TableSpec> const& specs,
                                     RankOptions const& chosen,
                                     ops::OptimizerKind kind) {
  TablePlan plan;
  try {
    plan = load_plan(chosen.plan);
  } catch (std::exception const& error) {  // the message has the file
    throw std::invalid_argument(fmt::format("--plan {}", error.what()));
  }
  try {
    require(plan.ranks == chosen.ranks,
            "a plan for {} ranks; this run has {}",
            plan.ranks,
            chosen.ranks);
    require_plan(specs, plan);
    require_whole_rows(plan, kind);
  } catch (std::invalid_argument const& error) {
    throw std::invalid_argument(fmt::format("--plan {}: {}", chosen.plan, error.what()));
  }
  return plan;
}

}  // namespace

std::optional<TableParts> table_parts(std::vector<TableSpec> specs,
                                      RankOptions const& chosen,
                                      UpdateOptions const& update,
                                      bool quiet) {
  if (chosen.parallel != Parallel::sharded) {
    return std::nullopt;
  }
  auto const how = sizes_of(update.optimizer);
  bool const is_first = chosen.process.rank() == 0;
  TablePlan plan;
  if (!chosen.plan.empty() && std::filesystem::exists(chosen.plan)) {
    plan = plan_of_file(specs, chosen, update.optimizer);
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
