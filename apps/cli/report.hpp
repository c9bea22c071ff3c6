// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/output_file.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>

namespace msstream::cli {

/// Writes a report as an OutputFile, or to a FIFO or device. The JSON is indented and ends with a
/// line end. A NaN becomes null, and bytes that are not UTF-8 (which file names may have) become
/// the replacement character. Throws like OutputFile.
inline void write_report(std::filesystem::path const& path, nlohmann::ordered_json const& report) {
  auto const json = report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  write_file(path, json + "\n", OutputFile::Kind::streamed);
}

}  // namespace msstream::cli
