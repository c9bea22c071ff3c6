// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/output_file.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>

namespace msstream::support {

/// Writes a report as an OutputFile, or to a FIFO or device: indented, with a last line end.
/// Not-a-numbers become null, and bytes that are not UTF-8 (file names may hold them) the
/// replacement character. Throws as OutputFile.
inline void write_report(std::filesystem::path const& path, nlohmann::ordered_json const& report) {
  auto const json = report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  write_file(path, json + "\n", OutputKind::streamed);
}

}  // namespace msstream::support
