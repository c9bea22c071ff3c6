// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/own_folder.hpp"

#include <stdlib.h>  // mkdtemp

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>

namespace msstream::doctor {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::seconds kLimit{20};

/// Starts the shell that removes the folder. Removes it at once if the shell does not start.
Child removing_shell(fs::path const& folder) {
  try {
    return Child({"/bin/sh", "-c", "cat >/dev/null; rm -rf -- \"$0\"", folder.string()},
                 Child::Options{{}, true});
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
}

}  // namespace

fs::path make_own_folder() {
  auto pattern = (fs::temp_directory_path() / "msstream-doctor-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), pattern);
  }
  return pattern;
}

OwnFolder::OwnFolder() : path_(make_own_folder()), shell_(removing_shell(path_)) {}

OwnFolder::~OwnFolder() {
  static_cast<void>(shell_.wait(std::chrono::steady_clock::now() + kLimit));
}

}  // namespace msstream::doctor
