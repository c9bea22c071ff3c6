// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

namespace msstream::overlap {

/// Records a program: the subcommand `run`. `arguments` begin with `run`. Returns the program's
/// exit status. Throws cli::UsageError for mistakes in the arguments.
int run_command(cli::Arguments const& arguments);

}  // namespace msstream::overlap
