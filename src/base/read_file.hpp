// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace msstream::detail {

/// Returns the whole content of a file, FIFO or device. Throws std::invalid_argument, with the
/// message `file: reason`, if the path cannot be read, is a folder, or has more than `most_bytes`,
/// as an endless device has.
[[nodiscard]] std::string read_file(std::filesystem::path const& path, std::size_t most_bytes);

}  // namespace msstream::detail
