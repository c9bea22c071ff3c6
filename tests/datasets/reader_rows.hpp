// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "datasets/click_columns.hpp"
#include "datasets/data_files.hpp"
#include "datasets/readers.hpp"
#include "datasets/stored_rows.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/string_key.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Makes rows in the file formats of the census and Criteo data sets, and reads them.
namespace msstream::datasets {

/// Returns a census row whose categorical values are "c<column>", and whose continuous values are
/// the column number.
inline std::string census_row(std::string_view income = "- 50000.") {
  std::string row;
  for (int column = 0; column < 41; ++column) {
    bool const number = column == 0 || column == 5 || (column >= 16 && column <= 18) ||
                        column == 24 || column == 30 || column == 39;
    row += fmt::format("{}{}, ", number ? "" : "c", column);
  }
  return row + std::string(income);
}

inline std::string criteo_header() {
  std::string header = "Id,Label";
  for (int i = 1; i <= 13; ++i) {
    header += fmt::format(",I{}", i);
  }
  for (int i = 1; i <= 26; ++i) {
    header += fmt::format(",C{}", i);
  }
  return header;
}

/// Returns a line of Criteo's data: a label, the numbers 0 … 12, and the words w1 … w26.
inline std::string criteo_row(char separator, std::string_view label = "1") {
  std::string row(label);
  for (int i = 0; i < 13; ++i) {
    row += fmt::format("{}{}", separator, i);
  }
  for (int i = 1; i <= 26; ++i) {
    row += fmt::format("{}w{}", separator, i);
  }
  return row;
}

/// Rows of click data, as they were read.
class ReadRows {
 public:
  explicit ReadRows(StoredRows rows)
      : rows_(std::move(rows)), columns_(click_columns(rows_.schema())) {}

  [[nodiscard]] std::int64_t rows() const { return rows_.rows(); }
  [[nodiscard]] ClickColumns const& columns() const { return columns_; }
  [[nodiscard]] StoredRows& stored() { return rows_; }
  /// Return the values of a row, of one categorical field or label after the other.
  [[nodiscard]] std::vector<std::int64_t> keys(std::int64_t row) const {
    std::vector<std::int64_t> keys;
    for (auto const& field : columns_.categorical) {
      auto const [chunk, i] = place_of(row);
      keys.push_back(chunk->ints(field)[i]);
    }
    return keys;
  }
  [[nodiscard]] std::vector<float> continuous(std::int64_t row) const {
    auto const [chunk, i] = place_of(row);
    auto const width = static_cast<std::size_t>(columns_.continuous);
    auto const& floats = chunk->floats(kContinuous);
    auto const& doubles = chunk->doubles(kContinuous);
    std::vector<float> values;
    for (std::size_t slot = i * width; slot < (i + 1) * width; ++slot) {
      values.push_back(doubles.empty() ? floats[slot] : static_cast<float>(doubles[slot]));
    }
    return values;
  }
  [[nodiscard]] std::vector<float> labels(std::int64_t row) const {
    std::vector<float> labels;
    for (auto const& label : columns_.labels) {
      auto const [chunk, i] = place_of(row);
      labels.push_back(chunk->floats(label)[i]);
    }
    return labels;
  }

 private:
  [[nodiscard]] std::pair<data::Chunk const*, std::size_t> place_of(std::int64_t row) const {
    for (auto const& chunk : rows_.chunks()) {
      if (row < chunk.rows()) {
        return {&chunk, static_cast<std::size_t>(row)};
      }
      row -= chunk.rows();
    }
    throw std::out_of_range("there is no such row");
  }

  StoredRows rows_;
  ClickColumns columns_;
};

inline ReadRows load(std::filesystem::path const& path,
                     ReaderOptions const& options = {},
                     std::size_t threads = 2) {
  auto const reader = open_data(path, options);
  return ReadRows(load_rows(*reader, threads));
}

inline std::string read_failure(std::filesystem::path const& path,
                                ReaderOptions const& options = {}) {
  return testing::message_of<data::DataError>([&] { (void)load(path, options); });
}

inline std::string with_column(std::string row,
                               int column,
                               std::string_view value,
                               char separator) {
  std::size_t begin = 0;
  for (int i = 0; i < column; ++i) {
    begin = row.find(separator, begin) + 1;
  }
  std::size_t const end = std::min(row.find(separator, begin), row.size());
  return row.replace(begin, end - begin, value);
}

}  // namespace msstream::datasets
