// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/step_options.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>

namespace train_branches {

/// What train_branches was asked to do; the values here are the defaults.
struct BranchOptions : msstream::support::StepOptions {
  BranchOptions() {
    steps = 20;
    learning_rate = 1e-6F;  // a step moves a logit by the sum of a thousand column means
  }

  std::int64_t width = 512;
  int layers = 20;
  std::int64_t target = 20;
};

/// Throws support::UsageError for values that are not accepted or contradict each other,
/// support::HelpRequested.
[[nodiscard]] BranchOptions parse_options(msstream::support::Arguments const& arguments);

/// Trains as asked, writes the files asked for, and returns the report. Throws what goes wrong.
nlohmann::ordered_json train_on_host(BranchOptions const& options);
nlohmann::ordered_json train_on_cuda(BranchOptions const& options);

}  // namespace train_branches
