// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace msstream::fuzz {

/// A folder for the temporary files of one process. It is created in the folder given by TMPDIR,
/// which scripts/fuzz.sh sets to a folder in memory.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "msstream-fuzz-XXXXXX").string();
    expect(::mkdtemp(pattern.data()) != nullptr, "cannot create {}", pattern);
    path_ = pattern;
  }
  ScratchFolder(ScratchFolder const&) = delete;
  ScratchFolder& operator=(ScratchFolder const&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const {
    return path_ / name;
  }

  /// Writes a file to the folder. Replaces an existing file with the same name.
  [[nodiscard]] std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    auto path = path_ / name;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << bytes;
    file.close();
    expect(!file.fail(), "cannot write {}", path.string());
    return path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace msstream::fuzz
