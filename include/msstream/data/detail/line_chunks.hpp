// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/byte_source.hpp>
#include <msstream/data/detail/csv_record.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::data::detail {

/// Whole records, and the place in the file at which the first of them begins.
struct LineChunk {
  std::string lines;
  std::int64_t first_line;  ///< the number of its line, from 1
  std::int64_t offset;      ///< the uncompressed bytes before it
};

/// Returns the number of line ends in the text.
[[nodiscard]] std::int64_t count_line_ends(std::string_view text);

/// Removes the first line from `text` and returns it without its line end.
[[nodiscard]] std::string_view take_line(std::string_view& text);
/// Removes the first record from `text` and returns it without its line end. Line ends in a record
/// may be quoted; without quoting, a record is a line.
[[nodiscard]] std::string_view take_record(std::string_view& text, std::optional<Quoting> quoting);

/// Removes the blank lines before the first line that is not blank.
void skip_blank_lines(LineChunk& chunk);

/// Divides bytes into chunks of whole records of about `chunk_bytes`. A longer record makes a
/// longer chunk. A record is a line, or several lines if line ends are quoted. A byte order mark
/// (UTF-8) before the first record is skipped.
class LineChunks {
 public:
  /// The largest length of a record, in bytes. Longer records are refused: data without line ends,
  /// such as a device's, would fill the memory.
  static constexpr std::size_t kLongestRecord = std::size_t{16} << 20U;

  LineChunks(std::unique_ptr<ByteSource> bytes,
             std::string name,
             std::size_t chunk_bytes,
             std::optional<Quoting> quoting = std::nullopt)
      : bytes_(std::move(bytes)),
        name_(std::move(name)),
        chunk_bytes_(chunk_bytes),
        scanner_(quoting) {}

  /// Returns the next chunk; empty at the end. Throws DataError if reading the bytes fails, for a
  /// NUL byte, which text does not have, for a record that is too long and for a quote that is not
  /// closed. Whole records before the error are returned first, so that which of several errors is
  /// found first does not depend on `chunk_bytes`.
  [[nodiscard]] std::optional<LineChunk> next();

  /// Takes back the chunk that next() returned last, and continues from its start with other rules
  /// of quoting.
  void reread(LineChunk const& chunk, std::optional<Quoting> quoting);

  /// Skips the bytes up to `offset`, which is the start of a record in line number `line`. Must be
  /// the first call.
  void skip_to(std::int64_t offset, std::int64_t line);

  /// Returns the uncompressed bytes before the chunk that next() returns next, and the number of
  /// its first line.
  [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::int64_t line() const noexcept { return next_line_; }

 private:
  /// Reads until the buffer has so many bytes, or as many as one read gives.
  void read_more(std::size_t wanted);
  void leave_out_mark();
  void scan();
  /// Returns whether lines end with CR alone, as files of old Macs do: a text without a line end
  /// and quotes, with a CR before its last byte.
  [[nodiscard]] bool has_cr_ends() const;
  void fail(std::size_t at, std::string_view reason);
  [[nodiscard]] bool is_over() const { return ended_ || failure_ != nullptr; }

  std::unique_ptr<ByteSource> bytes_;
  std::string name_;
  std::size_t chunk_bytes_;
  RecordScanner scanner_;
  std::string buffer_;  ///< starts with the first byte of a record
  std::size_t scanned_ = 0;
  std::size_t last_end_ = 0;  ///< end of the last whole record in the buffer
  std::int64_t next_line_ = 1;
  std::int64_t offset_ = 0;
  bool began_ = false;
  bool ended_ = false;
  std::exception_ptr failure_;  ///< to be thrown after all whole records are returned
};

}  // namespace msstream::data::detail
