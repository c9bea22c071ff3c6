// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace msstream {

/// A file that is written as a whole: a reader sees either the old file or the complete new one,
/// also after a crash or with a full disk.
///
/// States: open (bytes go to `.<name>.<16 digits>.tmp` in the same folder), then committed (the
/// bytes are on the disk and the file is renamed). If it is destroyed while open, it removes the
/// temporary file. A process that is killed leaves its temporary file behind, and the next
/// OutputFile of that name removes it; see also remove_unfinished_outputs(). The new file keeps the
/// old one's permissions, and also its owner if the process may set it. A symbolic link is
/// followed, not replaced. If the file has several hard links, the other links keep the old file. A
/// file without write permission is refused, although its folder would allow replacing it.
///
/// A FIFO, a device, or the file that the process's standard output or error already goes to cannot
/// be replaced; if `kind` allows it, it is opened and written to directly. If the reader of a FIFO
/// closes it, write() throws, and no SIGPIPE is raised. For use by one thread.
class OutputFile {
 public:
  /// The kinds of file that an output may be written to.
  enum class Kind : std::uint8_t {
    regular,   ///< a regular file, or a path at which no file exists yet
    streamed,  ///< also a FIFO, a character device such as /dev/null, or the process's standard
               ///< output
    /// The kinds of files of `streamed`, but opening never blocks: a FIFO without a reader is an
    /// error.
    streamed_at_once,
  };

  /// The stages of saving a file. Tests stop the process at one of them.
  enum class SavePoint : std::uint8_t {
    written,  ///< all bytes are written, but not yet flushed to the disk
    synced,   ///< all bytes are on the disk, but the file does not have its name yet
    renamed,  ///< the file has its name, but the folder is not yet flushed to the disk
  };
  /// Is called at each point of saving a file; what it throws ends the saving.
  using Observer = std::function<void(SavePoint)>;

  /// Opens the output file. Throws std::invalid_argument if `kind` does not allow the path, and
  /// std::system_error if the file cannot be written or its folder accepts no new file.
  explicit OutputFile(std::filesystem::path const& path,
                      Kind kind = Kind::regular,
                      Observer observer = {});
  OutputFile(OutputFile const&) = delete;
  OutputFile& operator=(OutputFile const&) = delete;
  ~OutputFile();

  /// Appends bytes to the file. Throws std::system_error, for example if the disk is full.
  void write(void const* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Completes the file: flushes its bytes to the disk, renames it, and blocks until both are done.
  /// If commit() throws std::system_error, the old file stays, except that a failure to flush the
  /// folder comes after the rename.
  void commit();

 private:
  [[nodiscard]] bool is_replaced() const noexcept { return !temporary_.empty(); }
  void observe(SavePoint point) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;  ///< empty if the target is written to directly
  Observer observer_;
  int descriptor_ = -1;
  int lock_ = -1;  ///< a second descriptor of the temporary file, which keeps its lock
  int slot_ = -1;  ///< the slot in detail::UnfinishedFiles
  pid_t owner_ = ::getpid();
};

/// Writes all of `content` to the file as a whole. Throws what an OutputFile throws.
void write_file(std::filesystem::path const& path,
                std::string_view content,
                OutputFile::Kind kind = OutputFile::Kind::regular);

/// Returns the reason why an OutputFile cannot be made now, such as "is a folder; expected a file",
/// or an empty string if it can. Creates and removes a temporary file, to find also problems that
/// only an attempt shows, such as a read-only file system. Does not open a FIFO.
[[nodiscard]] std::string output_problem(std::filesystem::path const& path,
                                         OutputFile::Kind kind = OutputFile::Kind::regular);

/// Removes the temporary files of all open OutputFiles. Safe to call in the handler of a signal
/// that ends the process. A thread that makes an OutputFile afterwards blocks until the process
/// ends.
void remove_unfinished_outputs() noexcept;

}  // namespace msstream
