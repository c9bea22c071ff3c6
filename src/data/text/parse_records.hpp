// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/bad_row_log.hpp"
#include "data/chunk_access.hpp"
#include "data/row_error.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/detail/line_chunks.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::data::detail {

/// The file that records are from, and the log of those that are left out.
struct RecordsOf {
  std::int64_t file;
  std::string name;
  std::optional<Quoting> quoting;
  std::shared_ptr<BadRowLog> bad_rows;
};

/// Appends the rows of `text` to the columns of `chunk` by `parse(text, chunk)`, which throws
/// DataError for a record that is not a row. If bad records are left out, the chunk gets the others
/// and the errors.
template <class Parse>
void parse_records(RecordsOf const& of, LineChunk const& text, Chunk& chunk, Parse const& parse) {
  if (!of.bad_rows->accepts_rows()) {
    parse(text, chunk);
    return;
  }
  try {
    parse(text, chunk);
    ChunkAccess::check(chunk);
    return;
  } catch (DataError const&) {  // NOLINT(bugprone-empty-catch): a record below throws it again
  }
  chunk.clear();
  Chunk alone(chunk.schema());
  LineChunk good{.lines = {}, .first_line = text.first_line, .offset = text.offset};
  std::vector<std::int64_t> numbers;
  std::vector<BadRow> bad;
  std::string_view rest = text.lines;
  for (auto line = text.first_line; !rest.empty();) {
    auto record = rest;
    static_cast<void>(take_record(rest, of.quoting));
    record.remove_suffix(rest.size());
    auto const number = static_cast<std::int64_t>(numbers.size() + bad.size());
    auto const next_line = line + std::ranges::count(record, '\n');
    auto const lines = next_line - line + (record.ends_with('\n') ? 0 : 1);
    auto const leave_out = [&](std::string error) {
      if (lines > 1) {
        error += fmt::format("; quotes join the lines {} to {}", line, line + lines - 1);
      }
      bad.push_back({of.file, line, lines, std::move(error)});
    };
    alone.clear();
    try {
      parse({.lines = std::string(record), .first_line = line, .offset = 0}, alone);
      ChunkAccess::check(alone);
      if (alone.rows() > 0) {
        numbers.push_back(number);
        good.lines += record;
      }
    } catch (RowError const& error) {
      leave_out(fmt::format("{}:{}: {}", of.name, line, error.what()));
    } catch (DataError const& error) {
      leave_out(error.what());
    }
    line = next_line;
  }
  if (!numbers.empty()) {
    parse(good, chunk);
  }
  ChunkAccess::set_numbers(chunk, std::move(numbers));
  ChunkAccess::bad_rows(chunk) = std::move(bad);
  ChunkAccess::bad_row_log(chunk) = of.bad_rows;
}

}  // namespace msstream::data::detail
