// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

namespace msstream::doctor {

/// Examines the computer and reports: the whole program but for `worker`. Returns the exit status:
/// 0, or 1 if a line reaches the level of --fail-on. Throws cli::UsageError for mistakes in the
/// arguments.
int doctor_command(cli::Arguments const& arguments);

}  // namespace msstream::doctor
