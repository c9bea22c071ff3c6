// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/line_chunks.hpp"
#include "datasets/text_format.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace msstream::datasets {

/// A parser that turns lines into rows. Immutable, so that threads can share it.
class RowParser {
 public:
  RowParser(TextFormat format, std::string file_name);

  /// Returns the rows of a chunk. Throws DataError for the first record that is not a row of the
  /// format.
  [[nodiscard]] RowBlock parse(LineChunk const& chunk) const;

  /// Checks the header line of a file. Throws DataError unless it holds the column names of the
  /// format.
  void check_header(std::string_view line, std::int64_t line_number) const;

 private:
  struct Place;
  void parse_row(std::string_view line, std::int64_t line_number, RowBlock& block) const;
  void parse_quoted_row(std::string_view record, std::int64_t line_number, RowBlock& block) const;
  [[noreturn]] void refuse_count(std::int64_t line_number, std::size_t found) const;
  void parse_value(std::string_view value, Place const& place, RowBlock& block) const;

  TextFormat format_;
  std::string file_name_;
  std::size_t labels_;
};

/// Removes the first line from `text` and returns it without its line end.
[[nodiscard]] std::string_view take_line(std::string_view& text);
/// Removes the first record from `text` and returns it without its line end. Line ends in a record
/// may be quoted.
[[nodiscard]] std::string_view take_record(std::string_view& text, Quoting quoting);

}  // namespace msstream::datasets
