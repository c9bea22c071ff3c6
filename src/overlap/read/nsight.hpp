// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/read/read.hpp"

#include <filesystem>
#include <vector>

namespace msstream::overlap {

/// Reads an export of Nsight Systems: one recording for each process that used a device. Throws
/// std::runtime_error, with the file, for another SQLite database, a damaged one, one without any
/// work of a device, and in a build without SQLite.
[[nodiscard]] std::vector<Recording> read_nsight(std::filesystem::path const& file,
                                                 ReadOptions const& options);

}  // namespace msstream::overlap
