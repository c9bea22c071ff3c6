// SPDX-License-Identifier: Apache-2.0
#include "datasets/row_parser.hpp"

#include "datasets/data_error.hpp"
#include "datasets/string_key.hpp"
#include "datasets/text_values.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace msstream::datasets {

/// The position of a value in a file, for the message if the value is bad.
struct RowParser::Place {
  std::int64_t line;
  std::size_t column;
};

namespace {

std::string_view trim(std::string_view value) {
  auto const begin = value.find_first_not_of(' ');
  if (begin == std::string_view::npos) {
    return {};
  }
  return value.substr(begin, value.find_last_not_of(' ') - begin + 1);
}

/// Removes the first `bytes` bytes of the text and returns them without the line end after them.
std::string_view take(std::string_view& text, std::size_t bytes) {
  std::string_view line = text.substr(0, bytes);
  text.remove_prefix(line.size());
  if (line.ends_with('\n')) {
    line.remove_suffix(1);
  }
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  return line;
}

/// The largest accepted number. Numbers beyond it are errors in the data: in float32 their squares
/// and differences would be infinite.
constexpr float kLargestNumber = 1e12F;

std::optional<float> parse_income(std::string_view value) {
  value = value.substr(0, value.find_last_not_of(". ") + 1);
  if (value == "- 50000") {
    return 0.0F;
  }
  return value == "50000+" ? std::optional(1.0F) : std::nullopt;
}

std::optional<float> parse_zero_one(std::string_view value) {
  if (value == "0") {
    return 0.0F;
  }
  return value == "1" ? std::optional(1.0F) : std::nullopt;
}

}  // namespace

std::string_view take_line(std::string_view& text) {
  return take(text, std::min(text.find('\n'), text.size() - 1) + 1);
}

std::string_view take_record(std::string_view& text, Quoting quoting) {
  return take(text, RecordScanner(quoting).first_end(text));
}

RowParser::RowParser(TextFormat format, std::string file_name)
    : format_(std::move(format)),
      file_name_(std::move(file_name)),
      labels_(format_.schema().labels.size()) {}

RowBlock RowParser::parse(LineChunk const& chunk) const {
  RowBlock block;
  std::string_view lines = chunk.lines;
  auto const quoting = format_.quoting();
  if (quoting && chunk.lines.find('"') != std::string::npos) {
    std::int64_t number = chunk.first_line;
    while (!lines.empty()) {
      auto const before = lines;
      auto const record = take_record(lines, *quoting);
      if (!record.empty()) {
        parse_quoted_row(record, number, block);
      }
      number += std::ranges::count(before.substr(0, before.size() - lines.size()), '\n');
    }
    return block;
  }
  for (std::int64_t number = chunk.first_line; !lines.empty(); ++number) {
    auto const line = take_line(lines);
    if (!line.empty()) {
      parse_row(line, number, block);
    }
  }
  return block;
}

void RowParser::check_header(std::string_view line, std::int64_t line_number) const {
  std::string expected;
  for (auto const& column : format_.columns) {
    expected += fmt::format(
        "{}{}", expected.empty() ? "" : std::string_view(&format_.separator, 1), column.name);
  }
  std::string found(line);
  if (auto const quoting = format_.quoting(); quoting && line.find('"') != std::string_view::npos) {
    found.clear();
    for (auto const& value : split_record(line, *quoting).values) {
      found += fmt::format(
          "{}{}", found.empty() ? "" : std::string_view(&format_.separator, 1), value.text);
    }
  }
  if (found != expected) {
    throw DataError(fmt::format("{}:{}: expected the header {}, found {}",
                                file_name_,
                                line_number,
                                shown(expected),
                                shown(line)));
  }
}

void RowParser::parse_row(std::string_view line, std::int64_t line_number, RowBlock& block) const {
  // Reports a wrong number of columns before a bad value, as for rows with quotes.
  auto const found = 1 + static_cast<std::size_t>(std::ranges::count(line, format_.separator));
  if (found != format_.columns.size()) {
    refuse_count(line_number, found);
  }
  block.labels.resize(block.labels.size() + labels_);
  std::string_view rest = line;
  for (std::size_t column = 0; column < found; ++column) {
    auto const value = rest.substr(0, rest.find(format_.separator));
    parse_value(format_.padded ? trim(value) : value, {line_number, column}, block);
    rest.remove_prefix(std::min(value.size() + 1, rest.size()));
  }
  ++block.rows;
}

void RowParser::parse_quoted_row(std::string_view record,
                                 std::int64_t line_number,
                                 RowBlock& block) const {
  auto const [values, bad] = split_record(record, format_.quoting().value());
  if (bad) {
    throw DataError(fmt::format(
        "{}:{}: column {}: expected '{}' or the end of the line behind the quoted value {}",
        file_name_,
        line_number + values[*bad].line,
        *bad + 1,
        format_.separator,
        shown(values[*bad].text)));
  }
  if (values.size() != format_.columns.size()) {
    refuse_count(line_number, values.size());
  }
  block.labels.resize(block.labels.size() + labels_);
  for (std::size_t column = 0; column < values.size(); ++column) {
    std::string_view const value = values[column].text;
    parse_value(
        format_.padded ? trim(value) : value, {line_number + values[column].line, column}, block);
  }
  ++block.rows;
}

void RowParser::refuse_count(std::int64_t line_number, std::size_t found) const {
  throw DataError(fmt::format("{}:{}: expected {} columns ({}), found {}",
                              file_name_,
                              line_number,
                              format_.columns.size(),
                              format_.name,
                              found));
}

void RowParser::parse_value(std::string_view value, Place const& place, RowBlock& block) const {
  Column const& column = format_.columns[place.column];
  auto const expect = [&](std::optional<float> parsed, std::string_view expected) {
    if (!parsed) [[unlikely]] {
      throw DataError(fmt::format("{}:{}: column {} ({}): expected {}, found {}",
                                  file_name_,
                                  place.line,
                                  place.column + 1,
                                  column.name,
                                  expected,
                                  shown(value)));
    }
    return *parsed;
  };
  switch (column.role) {
    case ColumnRole::categorical:
      block.keys.push_back(categorical_key(value));
      break;
    case ColumnRole::continuous:
      block.continuous.push_back(expect(parse_number<float>(value), "a number"));
      expect(std::abs(block.continuous.back()) <= kLargestNumber
                 ? std::optional(block.continuous.back())
                 : std::nullopt,
             "a number from -1e12 to 1e12");
      break;
    case ColumnRole::continuous_logged: {
      float const number =
          value.empty() ? 0.0F : expect(parse_number<float>(value), "a number or nothing");
      block.continuous.push_back(std::log1p(std::max(number, 0.0F)));
      break;
    }
    case ColumnRole::ignored:
      break;
    case ColumnRole::label_zero_one:
      block.labels[block.labels.size() - labels_] = expect(parse_zero_one(value), "0 or 1");
      break;
    case ColumnRole::label_income:
      block.labels[block.labels.size() - labels_] =
          expect(parse_income(value), "'- 50000.' or '50000+.'");
      break;
    case ColumnRole::label_never_married:
      block.labels.back() = value == "Never married" ? 1.0F : 0.0F;
      break;
  }
}

}  // namespace msstream::datasets
