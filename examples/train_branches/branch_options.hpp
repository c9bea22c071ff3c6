// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/step_options.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>

namespace train_branches {

/// The command-line options of the program train_branches, with their defaults.
struct BranchOptions : msstream::training::StepOptions {
  BranchOptions() {
    steps = 20;
    learning_rate = 1e-6F;  // small: a step moves a logit by the sum of a thousand column means
  }

  std::int64_t width = 512;
  int layers = 20;
  std::int64_t target = 20;
};

/// Reads the options from arguments and environment. Throws cli::UsageError for values that are
/// not accepted or contradict each other, and cli::HelpRequested for --help.
[[nodiscard]] BranchOptions parse_options(msstream::cli::Arguments const& arguments);

/// Trains as the options say, writes the files that they name, and returns the report. Throws if
/// training fails.
nlohmann::ordered_json train_on_host(BranchOptions const& options);
nlohmann::ordered_json train_on_cuda(BranchOptions const& options);

}  // namespace train_branches
