// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/data_error.hpp>
#include <msstream/data/reader.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace msstream::data::detail {

/// An error of a value in a chunk, whose message does not name the row.
class RowError : public DataError {
 public:
  RowError(std::int64_t row, std::string const& message) : DataError(message), row_(row) {}

  /// Returns the number of the row in the chunk.
  [[nodiscard]] std::int64_t row() const noexcept { return row_; }

 private:
  std::int64_t row_;
};

/// An error of a chunk whose columns do not fit each other, whose message does not name the reader.
class ChunkError : public DataError {
 public:
  using DataError::DataError;
};

/// Returns the place of the rows that a reader read between two positions. The first one may be at
/// the end of the file in front of theirs.
[[nodiscard]] inline Reader::Position place_of_rows(Reader::Position const& before,
                                                    Reader::Position const& after) {
  return before.file == after.file ? before : Reader::Position{.file = after.file};
}

/// Returns the error with the file and the place of the row, which is in a chunk of rows from
/// `begin` on.
[[nodiscard]] inline DataError with_place(RowError const& error,
                                          Reader const& reader,
                                          Reader::Position const& begin) {
  std::string place = fmt::format("row {}", error.row());
  if (begin.line > 0 || begin.offset > 0) {
    place = begin.line > 0 ? fmt::format("line {}", begin.line)
                           : fmt::format("position {}", begin.offset);
    place = error.row() > 0 ? fmt::format("{} rows behind {}", error.row(), place) : place;
  }
  return DataError(fmt::format("{}, {}: {}", reader.file_name(begin.file), place, error.what()));
}

/// Returns the file of rows from `begin` on, and their place in it if the reader tells one.
[[nodiscard]] inline std::string name_of_rows(Reader const& reader, Reader::Position const& begin) {
  return begin.line > 0
             ? fmt::format("{}, from line {} on", reader.file_name(begin.file), begin.line)
         : begin.offset > 0
             ? fmt::format("{}, from position {} on", reader.file_name(begin.file), begin.offset)
             : reader.file_name(begin.file);
}

/// Calls `function`, which reads or uses a chunk of rows from `begin` on. Its errors of a row, and
/// of columns that do not fit each other, get the file and the place.
template <class Function>
void with_places(Reader const& reader, Reader::Position const& begin, Function const& function) {
  try {
    function();
  } catch (RowError const& error) {
    throw with_place(error, reader, begin);
  } catch (ChunkError const& error) {
    throw DataError(fmt::format("{}: {}", name_of_rows(reader, begin), error.what()));
  }
}

}  // namespace msstream::data::detail
