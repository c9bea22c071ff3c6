// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

namespace msstream::overlap {

/// The exit status if a finding meets a condition of --fail-on.
inline constexpr int kFailedCheck = 3;

/// Reads recordings and reports on them, or compares two: the program without a subcommand. Returns
/// the exit status, 0 or kFailedCheck. Throws cli::UsageError for mistakes in the arguments.
int report_command(cli::Arguments const& arguments);

}  // namespace msstream::overlap
