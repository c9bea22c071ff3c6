// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "datasets/data_files.hpp"
#include "datasets/dataset.hpp"
#include "datasets/readers.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
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

inline Dataset load(std::filesystem::path const& path, ReaderOptions const& options = {}) {
  auto const source = open_data(path, options);
  return load_dataset(*source, 2);
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

inline std::vector<float> copy(std::span<float const> values) {
  return {values.begin(), values.end()};
}

}  // namespace msstream::datasets
