// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace msstream::doctor {

/// Runs as a process that does short operations, for --processes. `arguments` are the number of the
/// GPU, the number of groups, each with a thread, and how many ms to work. Writes `ready` to the
/// standard output once all is warm, begins when a byte comes from the standard input, and then
/// writes the number of operations a second. Ends early if the standard input ends. Returns the
/// exit status.
int worker(std::vector<std::string> const& arguments);

}  // namespace msstream::doctor
