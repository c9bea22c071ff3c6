// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/embedding/table_gradient.hpp"
#include "optimizer/stochastic_rounding.hpp"

#include <msstream/ops/optimizer.hpp>
#include <msstream/ops/optimizer_rule.hpp>

#include <source_location>
#include <variant>
#include <vector>

namespace msstream::ops::detail {

/// A table of an update_rows(), with a gradient of its own or one of those of many tables.
struct TableUpdate {
  AnyTensor table;
  TableGradient gradient;
  OptimizerState<AnyRuntime> state;
  ParameterGroup group = {};
  kernels::RowRounding rounding = {};
};
/// Updates tables in one operation, and those of each lookup in many tables whose gradients are not
/// computed yet in another one before, which computes and applies them at once.
void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 std::vector<TableUpdate> const& tables,
                 std::source_location issued_at);
/// Updates the tables whose gradients are not computed yet, if the rule allows to compute and apply
/// them at once: one operation, named `update_tables`, for each lookup. Returns the other tables.
[[nodiscard]] std::vector<TableUpdate> update_by_sums(OptimizerRule const& rule,
                                                      StepCounter<AnyRuntime> const& step,
                                                      std::vector<TableUpdate> const& tables,
                                                      std::source_location issued_at);

/// A gradient that is a part of a global norm: that of a dense parameter, or of a table.
struct NormInput {
  std::variant<Floats, TableGradient> gradient;
  std::int64_t width;  ///< of the rows of a table
  float clip_value;
};

}  // namespace msstream::ops::detail
