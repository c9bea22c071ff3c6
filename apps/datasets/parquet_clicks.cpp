// SPDX-License-Identifier: Apache-2.0
#include "datasets/parquet_clicks.hpp"

#include "datasets/click_columns.hpp"
#include "datasets/text_format.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/text_reader.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <utility>

#if MSSTREAM_HAS_PARQUET
#include <msstream/data/chunk.hpp>
#include <msstream/data/parquet_reader.hpp>
#endif

namespace msstream::datasets {

#if MSSTREAM_HAS_PARQUET

namespace {

using data::ColumnType;
using data::ParquetColumn;
using data::ParquetReader;

/// The key of an integer that is null.
constexpr double kKeyOfNull = -1;

ParquetColumn keys_of(std::string name, ColumnType type, bool is_list) {
  ParquetColumn column{.name = std::move(name), .type = type, .jagged = is_list};
  if (type == ColumnType::int64) {
    column.if_null = kKeyOfNull;
  }
  return column;
}

/// Returns whether the first rows of a file can be read with this column alone.
bool can_read(std::filesystem::path const& path, ParquetColumn const& column) {
  try {
    ParquetReader reader(path, {column});
    data::Chunk chunk(reader.schema());
    reader.next(chunk);
    return true;
  } catch (data::DataError const&) {
    return false;
  }
}

/// Returns the type of the ids: integers if the file's first field of ids has them, and otherwise
/// strings, whose errors say what the file lacks.
ColumnType type_of_ids(std::filesystem::path const& path, bool is_list) {
  return can_read(path, keys_of("C1", ColumnType::int64, is_list)) ? ColumnType::int64
                                                                   : ColumnType::hashed;
}

}  // namespace

std::unique_ptr<data::Reader> open_parquet_clicks(
    std::vector<std::filesystem::path> const& paths,
    std::vector<std::vector<data::Transform>> const& lists) {
  require_lists(lists);
  auto const type = type_of_ids(paths.front(), !lists.empty());
  std::vector<ParquetColumn> columns;
  for (auto const& name : data::numbered_names("C", 1, 26)) {
    auto const field = columns.size();
    auto& column = columns.emplace_back(keys_of(name, type, !lists.empty()));
    if (!lists.empty()) {
      column.transforms = lists[field];
    }
  }
  columns.push_back({.name = std::string(kContinuous),
                     .fields = data::numbered_names("I", 1, 13),
                     .transforms = transforms_of_criteo_numbers()});
  columns.push_back({.name = "Label"});
  return std::make_unique<ParquetReader>(paths, std::move(columns));
}

#else

std::unique_ptr<data::Reader> open_parquet_clicks(
    std::vector<std::filesystem::path> const& paths,
    std::vector<std::vector<data::Transform>> const& lists) {
  require_lists(lists);
  throw data::DataError(
      fmt::format("{}: expected text, found a Parquet file; this build reads none: configure one "
                  "with -D MSSTREAM_ARROW=…, as docs/data.md says",
                  paths.front().string()));
}

#endif

}  // namespace msstream::datasets
