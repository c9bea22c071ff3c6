// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace msstream::detail {

/// Writes a line to the log, which is the standard error stream.
void log_line(std::string const& line);

}  // namespace msstream::detail
