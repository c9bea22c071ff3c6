// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/byte_source.hpp"
#include "datasets/csv_record.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::datasets {

/// Whole records, and the number (from 1) of the line in the file in which the first of them
/// begins.
struct LineChunk {
  std::string lines;
  std::int64_t first_line;
};

/// Divides bytes into chunks of whole records of about `chunk_bytes`. A longer record makes a
/// longer chunk. A record is a line, or several lines if line ends are quoted. A byte order mark
/// (UTF-8) before the first record is skipped.
class LineChunks {
 public:
  /// The largest length of a record, in bytes. Longer records are refused: data without line ends,
  /// such as a device's, would fill the memory.
  static constexpr std::size_t kLongestRecord = std::size_t{16} << 20U;

  LineChunks(std::unique_ptr<ByteSource> bytes, std::string name, std::size_t chunk_bytes)
      : bytes_(std::move(bytes)), name_(std::move(name)), chunk_bytes_(chunk_bytes) {}

  /// Returns the next chunk; empty at the end. Throws DataError if reading the bytes fails, for a
  /// NUL byte, which text does not have, for a record that is too long and for a quote that is not
  /// closed. Whole records before the error are returned first, so that which of several errors is
  /// found first does not depend on `chunk_bytes`.
  [[nodiscard]] std::optional<LineChunk> next();

  /// Takes back the chunk that next() returned last, and continues from its start with quoting.
  void reread(LineChunk const& chunk, Quoting quoting);

 private:
  void read_more();
  void leave_out_mark();
  void scan();
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
  bool began_ = false;
  bool ended_ = false;
  std::exception_ptr failure_;  ///< to be thrown after all whole records are returned
};

}  // namespace msstream::datasets
