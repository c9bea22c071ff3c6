// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

#include <msstream/ops/optimizer_rule.hpp>

#include <nlohmann/json_fwd.hpp>

#include <string_view>

/// The options of the update rule that training programs share, with their defaults.
namespace msstream::training {

/// The update rule of the parameters.
struct UpdateOptions {
  ops::OptimizerKind optimizer = ops::OptimizerKind::adam;
  float learning_rate = 1e-3F;
};

/// Adds the options under the title that was set last.
void add_options(cli::Options& options, UpdateOptions& chosen);

/// Returns the options as a report shows them.
[[nodiscard]] nlohmann::ordered_json describe(UpdateOptions const& chosen);

/// Returns the name of a choice for users.
[[nodiscard]] std::string_view name_of(ops::OptimizerKind kind);

}  // namespace msstream::training
