// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/atomic_file.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>

namespace msstream::support {

/// Writes a report that is never half a file: indented, with a last line end. Not-a-numbers become
/// null, and bytes that are not UTF-8 (file names may hold them) the replacement character. Throws
/// as AtomicFile.
inline void write_report(std::filesystem::path const& path, nlohmann::ordered_json const& report) {
  AtomicFile file(path);
  file.write(report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  file.write("\n");
  file.commit();
}

}  // namespace msstream::support
