// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of Census and Criteo files, with and without gzip. A file must either be read
// as the same rows or be refused by a DataError with the same message, regardless of chunk size,
// line ends and compression.
#include "datasets/click_columns.hpp"
#include "datasets/readers.hpp"
#include "datasets/stored_rows.hpp"
#include "fuzz.hpp"
#include "gzip.hpp"
#include "scratch_folder.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <variant>

namespace {

using namespace msstream;
using datasets::DataFormat;
using datasets::ReaderOptions;
using fuzz::expect;

constexpr std::size_t kOneChunk = 8'192;
constexpr std::size_t kCensusCategories = 33;

struct Rows {
  std::size_t count = 0;
  std::vector<std::vector<std::int64_t>> keys;  ///< of each field
  std::vector<std::uint64_t> continuous;        ///< bits, since a missing number is NaN
  std::vector<std::vector<float>> labels;       ///< of each task

  friend bool operator==(Rows const&, Rows const&) = default;
};
using Outcome = std::variant<Rows, std::string>;

/// Returns whether the rows are Census data, of 33 categories or of 32 and a second label.
bool is_census(Rows const& rows) {
  return rows.keys.size() + rows.labels.size() == kCensusCategories + 1;
}

void expect_whole(Rows const& rows) {
  expect(rows.count > 0, "no rows, and no error");
  bool const census = is_census(rows);
  for (auto const bits : rows.continuous) {
    auto const value = std::bit_cast<double>(bits);
    expect(std::isfinite(value) || (std::isnan(value) && !census),
           "a continuous value is not finite");
  }
  for (auto const& labels : rows.labels) {
    expect(std::ranges::all_of(labels, [](float label) { return label == 0 || label == 1; }),
           "a label is neither 0 nor 1");
  }
}

Rows rows_of(datasets::StoredRows const& stored) {
  auto const columns = datasets::click_columns(stored.schema());
  Rows rows;
  rows.count = static_cast<std::size_t>(stored.rows());
  rows.keys.resize(columns.categorical.size());
  rows.labels.resize(columns.labels.size());
  for (auto const& chunk : stored.chunks()) {
    for (std::size_t i = 0; i < rows.keys.size(); ++i) {
      std::ranges::copy(chunk.ints(columns.categorical[i]), std::back_inserter(rows.keys[i]));
    }
    auto const add = [&](double value) {
      rows.continuous.push_back(std::bit_cast<std::uint64_t>(value));
    };
    std::ranges::for_each(chunk.floats(datasets::kContinuous), add);
    std::ranges::for_each(chunk.doubles(datasets::kContinuous), add);
    for (std::size_t i = 0; i < rows.labels.size(); ++i) {
      std::ranges::copy(chunk.floats(columns.labels[i]), std::back_inserter(rows.labels[i]));
    }
  }
  return rows;
}

/// Checks that a reader of valid data counts its rows before it parses them.
void expect_counted(data::Reader& reader) {
  data::Chunk chunk(reader.schema());
  for (; auto const counted = reader.next_counted_task(); chunk.clear()) {
    counted->task(chunk);
    expect(chunk.rows() == counted->rows, "{} rows, counted {}", chunk.rows(), counted->rows);
  }
}

Outcome read(std::string_view bytes, ReaderOptions const& options) {
  static fuzz::ScratchFolder const folder;
  try {
    auto const path = folder.write("data", bytes);
    auto const reader = datasets::open_data(path, options);
    auto rows = rows_of(datasets::load_rows(*reader, 1));
    expect_whole(rows);
    expect_counted(*datasets::open_data(path, options));
    return rows;
  } catch (data::DataError const& error) {
    expect(std::string_view(error.what()).find("/data:") != std::string_view::npos,
           "the message does not name the file: {}",
           error.what());
    return error.what();
  }
}

std::string described(Outcome const& outcome) {
  auto const* rows = std::get_if<Rows>(&outcome);
  return rows != nullptr ? fmt::format("{} rows", rows->count) : std::get<std::string>(outcome);
}

void expect_same(Outcome const& found, Outcome const& expected, std::string_view what) {
  expect(found == expected, "{}: {}, then {}", what, described(expected), described(found));
}

/// Checks the second task of the Census data, which has another label and one category less, but
/// otherwise the same rows.
void check_never_married(std::string_view bytes, Rows const& rows) {
  ReaderOptions const options{.never_married_task = true, .chunk_bytes = kOneChunk};
  bool const census = is_census(rows);
  try {
    auto const both = std::get<Rows>(read(bytes, options));
    expect(census, "the never-married task of other data than census");
    expect(both.count == rows.count && both.continuous == rows.continuous &&
               both.keys.size() == rows.keys.size() - 1,
           "the second task changes the rows");
    expect(both.labels.front() == rows.labels.front(), "the second task changes the first");
  } catch (std::invalid_argument const&) {
    expect(!census, "census data refused the never-married task");
  }
}

/// Checks that each line of the file that is not blank is a row, except for the header in one of
/// the formats.
void check_text(std::string_view bytes, Rows const& rows) {
  std::size_t lines = 0;
  std::string_view first;
  for (std::string_view rest = bytes; !rest.empty();) {
    auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    line.remove_suffix(line.ends_with('\r') ? 1 : 0);
    first = first.empty() ? line : first;
    lines += line.empty() ? 0 : 1;
  }
  bool const census = is_census(rows);
  bool const header = first.starts_with("Id,Label,");
  expect(rows.count + (header ? 1 : 0) == lines, "{} rows of {} lines", rows.count, lines);
  auto const format = census   ? DataFormat::census
                      : header ? DataFormat::criteo_csv
                               : DataFormat::criteo_tsv;
  expect_same(read(bytes, {.format = format, .chunk_bytes = kOneChunk}), rows, "its format named");
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  auto const input = fuzz::as_text(bytes, count);
  auto const outcome = read(input, {.chunk_bytes = kOneChunk});
  expect_same(read(input, {.chunk_bytes = 1}), outcome, "in chunks of a line");
  expect_same(read(input, {.chunk_bytes = 2 + count / 3}), outcome, "in a few chunks");

  auto const* rows = std::get_if<Rows>(&outcome);
  if (input.starts_with("\x1f\x8b")) {
    if (rows != nullptr) {
      auto const longer = read(fmt::format("{}{}", input, fuzz::gzipped("")), {});
      auto const* refusal = std::get_if<std::string>(&longer);
      // Zeros after a gzip member count as padding, after which no other member may follow.
      if (refusal == nullptr || refusal->find("other bytes follow") == std::string::npos) {
        expect_same(longer, outcome, "with an empty member behind");
      }
    }
    return 0;
  }
  auto const half = input.substr(0, count / 2);
  expect_same(read(fuzz::gzipped(half) + fuzz::gzipped(input.substr(half.size())),
                   {.chunk_bytes = kOneChunk}),
              outcome,
              "as two gzip members");
  // A line end inside a quoted value of a CSV file is part of the value.
  bool const quoted = input.find('"') != std::string_view::npos;
  if (!quoted && input.find('\r') == std::string_view::npos) {
    expect_same(read(fuzz::replaced(input, "\n", "\r\n"), {.chunk_bytes = kOneChunk}),
                outcome,
                "with CRLF");
  }
  if (rows != nullptr) {
    check_never_married(input, *rows);
    if (!quoted) {
      constexpr std::string_view mark = "\xEF\xBB\xBF";
      check_text(input.substr(input.starts_with(mark) ? mark.size() : 0), *rows);
    }
  }
  return 0;
}
