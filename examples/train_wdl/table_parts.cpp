// SPDX-License-Identifier: Apache-2.0
#include "table_parts.hpp"

#include "cli/outputs.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/optimizer.hpp>

#include <filesystem>
#include <iostream>
#include <stdexcept>

namespace train_wdl {

WideDeepShape shape_of(TrainOptions const& options, TrainingData const& data) {
  return {.fields = data.columns.categorical,
          .table_rows = data.table_rows,
          .continuous = data.columns.continuous,
          .embedding_dim = options.embedding_dim,
          .layers = options.layers,
          .seed = options.seed};
}

std::vector<ms::TableSpec> table_specs(WideDeepShape const& shape) {
  std::vector<ms::TableSpec> specs;
  for (std::size_t i = 0; i < shape.fields.size(); ++i) {
    specs.push_back({.name = "deep/" + shape.fields[i],
                     .rows = shape.table_rows[i],
                     .width = shape.embedding_dim});
  }
  for (std::size_t i = 0; i < shape.fields.size(); ++i) {
    specs.push_back({.name = "wide/" + shape.fields[i],
                     .rows = shape.table_rows[i],
                     .width = 1,
                     .initializer = ms::init::zeros()});
  }
  return specs;
}

ms::TablePlan plan_of_tables(TrainOptions const& options, TrainingData const& data) {
  auto const specs = table_specs(shape_of(options, data));
  ms::PlanTablesOptions const how{.state_bytes_per_element =
                                      4 * ms::ops::states_of(options.optimizer)};
  bool const is_first = options.process.rank() == 0;
  ms::TablePlan plan;
  if (!options.plan.empty() && std::filesystem::exists(options.plan)) {
    plan = ms::load_plan(options.plan);
    ms::require(plan.ranks == options.ranks,
                "{}: a plan for {} ranks; this run has {}",
                options.plan,
                plan.ranks,
                options.ranks);
    try {
      ms::require_plan(specs, plan);
    } catch (std::invalid_argument const& error) {
      throw std::invalid_argument(options.plan + ": " + error.what());
    }
  } else {
    plan = ms::plan_tables(specs, options.ranks, how);
    if (!options.plan.empty() && is_first) {
      ms::cli::attempt_output("--plan", [&] { ms::save_plan(options.plan, plan); });
    }
  }
  if (is_first && !options.quiet) {
    std::cerr << describe_plan(specs, plan, how);
  }
  return plan;
}

}  // namespace train_wdl
