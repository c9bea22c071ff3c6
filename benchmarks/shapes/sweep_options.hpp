// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "case.hpp"
#include "cli/options.hpp"

#include <optional>
#include <string>

namespace benchmarks::shapes {

namespace cli = msstream::cli;

struct SweepOptions {
  std::optional<Family> only;  ///< the operations; null: all
  bool quick = false;
  double limit_s = 110;  ///< after which the rest of the cases is left out
  std::string csv;       ///< a path; empty: no file
};

/// Parses the options of shapes_sweep. Throws cli::UsageError or cli::HelpRequested.
[[nodiscard]] SweepOptions parse_options(cli::Arguments const& arguments);

}  // namespace benchmarks::shapes
