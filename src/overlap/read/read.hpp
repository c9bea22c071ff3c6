// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace msstream::overlap {

struct ReadOptions {
  /// Called while a file is read, with the bytes read of it and its size, at most ten times a
  /// second; for a progress line.
  std::function<void(std::size_t done, std::size_t size)> progress = {};
};

/// Reads a recording: a Chrome trace of PyTorch (Kineto) or of msstream-overlap, JSON or gzipped
/// JSON; an export of Nsight Systems (SQLite); a step trace or a timeline of msstream (JSON). The
/// contents tell which, not the name. A file of several processes gives several recordings.
///
/// Throws std::runtime_error that names the file and what is wrong in it where: not readable,
/// truncated, broken, of an unknown kind or version, without any work of a device.
[[nodiscard]] std::vector<Recording> read(std::filesystem::path const& file,
                                          ReadOptions const& options = {});

}  // namespace msstream::overlap
