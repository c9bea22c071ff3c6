// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace msstream {

/// Kinds of file that an output may be written to.
enum class OutputKind : std::uint8_t {
  regular,   ///< a regular file, or none yet
  streamed,  ///< also a FIFO, a character device as /dev/null, or the process's standard output
  /// Like `streamed`, for where the process must not block: a FIFO that nobody reads is an error.
  streamed_at_once,
};

/// Where a save stands; tests stop the process at one of them.
enum class SavePoint : std::uint8_t {
  written,  ///< all bytes are written, not yet on the disk
  synced,   ///< all bytes are on the disk, not yet under the name
  renamed,  ///< the name shows the new file; the folder is not yet on the disk
};
using SaveObserver = std::function<void(SavePoint)>;

/// A file that is written as a whole: a reader, and whoever comes after a crash or a full disk,
/// sees the old file or the new one.
///
/// States: open (bytes go to `.<name>.<16 digits>.tmp` in the same folder), then committed (they
/// are on the disk and renamed). Destroyed while open, it removes the temporary file. A process
/// that is killed leaves the temporary file, which the next OutputFile of that name removes; see
/// also remove_unfinished_outputs(). The new file has the old one's permissions, and its owner
/// where the process may set it. A symbolic link is followed, not replaced; of several hard links
/// the others keep the old file. A file that may not be written is refused, although its folder
/// would allow to replace it.
///
/// What cannot be replaced (a FIFO, a device, the file that the process's standard output or error
/// already goes to) is opened and written as the bytes come, if `kind` allows it. A reader that
/// closes a FIFO is an error of write(), not a SIGPIPE. One thread.
class OutputFile {
 public:
  /// Throws std::invalid_argument for a path that `kind` does not allow, std::system_error when the
  /// file cannot be written or its folder takes no new file.
  explicit OutputFile(std::filesystem::path const& path,
                      OutputKind kind = OutputKind::regular,
                      SaveObserver observer = {});
  OutputFile(OutputFile const&) = delete;
  OutputFile& operator=(OutputFile const&) = delete;
  ~OutputFile();

  /// Throws std::system_error, as when the disk is full.
  void write(void const* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Blocks until the bytes are on the disk. Throws std::system_error; the old file then stays,
  /// except that a failure to flush the folder comes after the rename.
  void commit();

 private:
  [[nodiscard]] bool is_replaced() const noexcept { return !temporary_.empty(); }
  void observe(SavePoint point) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;  ///< empty: streamed
  SaveObserver observer_;
  int descriptor_ = -1;
  int lock_ = -1;  ///< a second descriptor of the temporary file, which keeps its lock
  int slot_ = -1;  ///< of what a signal removes
  pid_t owner_ = ::getpid();
};

/// Writes all of `content`. Throws as OutputFile.
void write_file(std::filesystem::path const& path,
                std::string_view content,
                OutputKind kind = OutputKind::regular);

/// Why an OutputFile could not be made now, such as "is a folder; expected a file"; empty when it
/// could. It creates a temporary file and removes it, so that what only an attempt finds out, such
/// as a file system that is read-only, is found too. A FIFO is not opened.
[[nodiscard]] std::string output_problem(std::filesystem::path const& path,
                                         OutputKind kind = OutputKind::regular);

/// Removes the temporary files of all OutputFiles that are open. For the handler of a signal that
/// ends the process, and safe there; whoever makes an OutputFile afterwards waits for that end.
void remove_unfinished_outputs() noexcept;

}  // namespace msstream
