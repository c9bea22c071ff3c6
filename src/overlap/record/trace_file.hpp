// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace msstream::overlap::record {

/// Returns a gzip member of `text`, compressed by zlib if it is on this machine and stored as it is
/// otherwise. Its header's extra field has the subfield "MS" with the member's size, so that whole
/// members can be told from one that was cut.
[[nodiscard]] std::string gzip_member(std::string_view text);

/// Whether zlib is on this machine.
[[nodiscard]] bool can_compress();

/// The file of a recording while it is written. Each piece is one write() of a gzip member or, in a
/// plain file, of text, so that a process that is killed leaves whole pieces.
///
/// `<folder>/<stem>.part` is locked while the process lives, and becomes `<folder>/<stem>.json.gz`
/// (or `.json`) in finish(). Neither replaces another file: a number is added to the stem. Errors
/// are kept: after one, nothing more is written.
class TraceFile {
 public:
  TraceFile(std::string const& folder, std::string const& stem, bool plain);
  TraceFile(TraceFile const&) = delete;
  TraceFile& operator=(TraceFile const&) = delete;
  ~TraceFile();

  /// Returns why the last operation failed; empty if none did.
  [[nodiscard]] std::string const& error() const noexcept { return error_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// The path without ".part".
  [[nodiscard]] std::string const& path() const noexcept { return path_; }
  /// The order in which the processes of a recording began: 0, 1, …
  [[nodiscard]] int number() const noexcept { return number_; }

  void write(std::string_view text);
  /// Writes the last piece and gives the file its name.
  void finish(std::string_view footer);
  /// Closes the file in a child of fork(), whose parent goes on to write.
  void abandon() noexcept;

 private:
  void fail(char const* action);

  bool plain_;
  int descriptor_ = -1;
  int number_ = 0;
  std::uint64_t bytes_ = 0;
  std::string path_;
  std::string error_;
};

/// The outcome for a file whose process ended without finish().
struct CutFile {
  bool still_written = false;    ///< its process lives: nothing was done
  std::uint64_t lost_bytes = 0;  ///< of a piece that was not written as a whole
  std::string path;              ///< its name now
  std::string error;
};

/// Ends the file `part` of a process that was killed: removes an unfinished piece, appends
/// `footer`, and gives the file its name.
[[nodiscard]] CutFile complete_cut_file(std::string const& part, std::string_view footer);

}  // namespace msstream::overlap::record
