// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>

namespace msstream::support {

/// Where a save stands; tests stop the process at one of them.
enum class SavePoint : unsigned char {
  written,  ///< all bytes are written, not yet on the disk
  synced,   ///< all bytes are on the disk, not yet under the name
  renamed,  ///< the name shows the new file; the folder is not yet on the disk
};
using SaveObserver = std::function<void(SavePoint)>;

/// A file that appears under its name whole or not at all: a reader, and whoever comes after a
/// crash, sees the old file or the new one.
///
/// States: open (bytes go to `.<name>.<process>-<n>.tmp` in the same folder), then committed (they
/// are on the disk and renamed). Destroyed while open, it removes the temporary file; a process
/// that is killed leaves it behind, harmless. A symbolic link is followed, not replaced. One
/// thread.
class AtomicFile {
 public:
  /// Throws std::system_error when the folder cannot be written, std::invalid_argument when the
  /// target exists and is not a regular file, as /dev/null, which a rename would replace.
  explicit AtomicFile(std::filesystem::path const& target, SaveObserver observer = {});
  AtomicFile(AtomicFile const&) = delete;
  AtomicFile& operator=(AtomicFile const&) = delete;
  ~AtomicFile();

  /// Throws std::system_error, as when the disk is full.
  void write(void const* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Blocks until the bytes are on the disk. Throws std::system_error; the old file then stays,
  /// except that a failure to flush the folder comes after the rename.
  void commit();

 private:
  void observe(SavePoint point) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  SaveObserver observer_;
  int descriptor_ = -1;
  bool committed_ = false;
};

}  // namespace msstream::support
