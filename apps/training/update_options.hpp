// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

#include <msstream/ops/optimizer_rule.hpp>

#include <nlohmann/json_fwd.hpp>

/// The command-line options for the update rule, with their defaults, which training programs
/// share.
namespace msstream::training {

/// The choice of the rule by which an optimizer updates the parameters.
struct UpdateOptions {
  ops::OptimizerKind optimizer = ops::OptimizerKind::adam;
  float learning_rate = 1e-3F;
  /// Whether each table is updated by an operation of its own, and not all tables of a stream group
  /// by one. The results are the same.
  bool each_table = false;
};

/// Adds the options for the update rule, under the title that was set last.
void add_options(cli::Options& options, UpdateOptions& chosen);

/// Returns the options as JSON, for a program's report.
[[nodiscard]] nlohmann::ordered_json describe(UpdateOptions const& chosen);

}  // namespace msstream::training
