// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "byte_source.hpp"
#include "csv_record.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::support {

/// Whole records, and the number in its file (from 1) of the line that the first of them begins in.
struct LineChunk {
  std::string lines;
  std::int64_t first_line;
};

/// Cuts bytes into chunks of whole records of about `chunk_bytes`; a longer record makes a longer
/// chunk. A record is a line, or more where line ends are quoted. A byte order mark (UTF-8) before
/// the first is left out.
class LineChunks {
 public:
  /// Longer records are refused: what has no line ends, such as a device, would fill the memory.
  static constexpr std::size_t kLongestRecord = std::size_t{16} << 20U;

  LineChunks(std::unique_ptr<ByteSource> bytes, std::string name, std::size_t chunk_bytes)
      : bytes_(std::move(bytes)), name_(std::move(name)), chunk_bytes_(chunk_bytes) {}

  /// Empty at the end. Throws DataError where the bytes fail, for a NUL byte, which text does not
  /// have, for a record that is too long and a quote that is not closed; not before the whole
  /// records in front of it have been given, so that which of several errors is found first does
  /// not depend on `chunk_bytes`.
  [[nodiscard]] std::optional<LineChunk> next();

  /// Takes back the chunk that next() gave last, and goes on from there with quoting.
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
  std::string buffer_;  ///< from the begin of a record
  std::size_t scanned_ = 0;
  std::size_t last_end_ = 0;  ///< of the records in the buffer
  std::int64_t next_line_ = 1;
  bool began_ = false;
  bool ended_ = false;
  std::exception_ptr failure_;  ///< what follows the records that have been given
};

}  // namespace msstream::support
