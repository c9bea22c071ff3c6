// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "byte_source.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace msstream::support {

/// Whole lines, and the number in its file (from 1) of the first of them.
struct LineChunk {
  std::string lines;
  std::int64_t first_line;
};

/// Cuts bytes into chunks of whole lines of about `chunk_bytes`; a longer line makes a longer
/// chunk.
class LineChunks {
 public:
  LineChunks(std::unique_ptr<ByteSource> bytes, std::string name, std::size_t chunk_bytes)
      : bytes_(std::move(bytes)), name_(std::move(name)), chunk_bytes_(chunk_bytes) {}

  /// Empty at the end. Throws DataError where the bytes fail, and for a NUL byte, which text does
  /// not have; not before the whole lines in front of it have been given, so that which of several
  /// errors is found first does not depend on `chunk_bytes`.
  [[nodiscard]] std::optional<LineChunk> next();

 private:
  [[nodiscard]] std::string next_whole_lines();
  void cut_at_nul(std::string& lines);

  std::unique_ptr<ByteSource> bytes_;
  std::string name_;
  std::size_t chunk_bytes_;
  std::string rest_;  ///< the beginning of a line that the next chunk ends
  std::int64_t next_line_ = 1;
  bool ended_ = false;
  std::exception_ptr failure_;  ///< what follows the lines that have been given
};

}  // namespace msstream::support
