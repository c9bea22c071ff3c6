// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace msstream::detail {

/// The temporary files that a signal must remove. A slot is free, being filled, or filled; a
/// handler reads only what is filled, and once it has begun nobody fills a slot any more, so that
/// it never reads a path that changes.
class UnfinishedFiles {
 public:
  /// To be called before the file is created. Returns -1 when all slots are taken or the path is
  /// too long: the file is then left to the next save. Does not return when the process is ending.
  [[nodiscard]] static int add(std::filesystem::path const& path);
  static void remove(int slot) noexcept;
  /// Safe in a signal handler.
  static void unlink_all() noexcept;
};

}  // namespace msstream::detail
