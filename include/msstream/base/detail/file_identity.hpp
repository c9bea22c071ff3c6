// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <compare>
#include <filesystem>
#include <optional>
#include <string>

namespace msstream::detail {

/// Identifies the file that a path refers to, however the path is spelled. Two paths with equal
/// identities refer to one file, even through relative paths, symbolic links, hard
/// links and mounts.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;   ///< the file's inode, or its folder's if the file does not exist yet
  std::string name;  ///< the file's name in its folder; empty if the file exists

  // NOLINTNEXTLINE(modernize-use-nullptr): a zero that clang-tidy 14 sees in the comparison
  auto operator<=>(FileIdentity const&) const = default;
};

/// Returns the identity of the file at `path` or, if there is none, of the file that writing to
/// `path` would create. Returns nothing if the folder does not exist or cannot be searched.
[[nodiscard]] std::optional<FileIdentity> identity_of(std::filesystem::path const& path);

/// Follows a chain of symbolic links whose last link names a file that does not exist, and returns
/// the path of that file. Returns `path` itself if it is no link. Throws std::system_error if the
/// links form a circle.
[[nodiscard]] std::filesystem::path end_of_links(std::filesystem::path const& path);

/// Returns the folder that contains the file, or "." if the path is a name alone.
[[nodiscard]] std::filesystem::path folder_of(std::filesystem::path const& path);

}  // namespace msstream::detail
