// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/measure/child.hpp"

#include <filesystem>

namespace msstream::doctor {

/// Makes an empty folder for temporary files, which only this user may read. Throws
/// std::system_error if that fails.
[[nodiscard]] std::filesystem::path make_own_folder();

/// A folder for temporary files. A shell removes it when its standard input ends, which happens
/// also when this process is killed.
class OwnFolder {
 public:
  OwnFolder();
  OwnFolder(OwnFolder const&) = delete;
  OwnFolder& operator=(OwnFolder const&) = delete;
  ~OwnFolder();
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  Child shell_;
};

}  // namespace msstream::doctor
