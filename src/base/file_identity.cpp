// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/file_identity.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace msstream::detail {

namespace fs = std::filesystem;

std::optional<FileIdentity> identity_of(fs::path const& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    return FileIdentity{status.st_dev, status.st_ino, {}};
  }
  if (errno != ENOENT) {
    return std::nullopt;
  }
  auto const end = end_of_links(path);
  if (::stat(folder_of(end).c_str(), &status) != 0) {
    return std::nullopt;
  }
  return FileIdentity{status.st_dev, status.st_ino, end.filename().string()};
}

fs::path end_of_links(fs::path const& path) {
  constexpr int kMostLinks = 40;  // the number of links that the kernel follows
  fs::path end = path;
  for (int followed = 0; fs::is_symlink(fs::symlink_status(end)); ++followed) {
    if (followed == kMostLinks) {
      throw std::system_error(ELOOP, std::generic_category(), path.string());
    }
    auto const next = fs::read_symlink(end);
    end = next.is_absolute() ? next : folder_of(end) / next;
  }
  return end;
}

fs::path folder_of(fs::path const& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace msstream::detail
