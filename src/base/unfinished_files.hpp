// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace msstream::detail {

/// The paths of the temporary files that a signal handler must remove, in a fixed number of slots.
/// A slot is free, being filled, or filled. A signal handler reads only filled slots, and no slot
/// is filled once a handler has begun, so it never reads a path that is changing.
class UnfinishedFiles {
 public:
  /// Registers a file, before the file is created. Returns -1 if all slots are taken or the path is
  /// too long; if this process is then killed, the next save of the same target removes the file.
  /// Does not return if a signal handler is ending the process.
  [[nodiscard]] static int add(std::filesystem::path const& path);
  static void remove(int slot) noexcept;
  /// Removes the files of all filled slots. Safe in a signal handler.
  static void unlink_all() noexcept;
};

}  // namespace msstream::detail
