// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace msstream::detail {

/// The paths of the temporary files that a signal handler must remove. A slot is free, being
/// filled, or filled. A handler reads only filled slots, and no slot is filled once a handler has
/// begun, so it never reads a path that is changing.
class UnfinishedFiles {
 public:
  /// Registers a file; call it before the file is created. Returns -1 if all slots are taken or the
  /// path is too long; the next save of the same target then removes the file if this process is
  /// killed. Does not return if the process is ending.
  [[nodiscard]] static int add(std::filesystem::path const& path);
  static void remove(int slot) noexcept;
  /// Removes the files of all filled slots. Safe in a signal handler.
  static void unlink_all() noexcept;
};

}  // namespace msstream::detail
