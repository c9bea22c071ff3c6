// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <compare>
#include <filesystem>
#include <optional>
#include <string>

namespace msstream {

/// Which file a path means, however it is spelled: two paths whose identities are equal are one
/// file, through relative paths, symbolic links, hard links and mounts.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;   ///< of the file; of its folder when the file does not exist yet
  std::string name;  ///< in that folder; empty for a file that exists

  // NOLINTNEXTLINE(modernize-use-nullptr): a zero that clang-tidy 14 sees in the comparison
  auto operator<=>(FileIdentity const&) const = default;
};

/// The identity of a file that exists, or of the one that writing to `path` would create. Nothing
/// when there is no such folder, or it cannot be looked into.
[[nodiscard]] std::optional<FileIdentity> identity_of(std::filesystem::path const& path);

/// The path at the end of a chain of symbolic links of which the last one names a file that does
/// not exist; `path` itself when it is no link. Throws std::system_error for a circle of links.
[[nodiscard]] std::filesystem::path end_of_links(std::filesystem::path const& path);

/// The folder that a file of this path is in; "." for a name alone.
[[nodiscard]] std::filesystem::path folder_of(std::filesystem::path const& path);

}  // namespace msstream
