// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/writer.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {

inline void check_arrow(arrow::Status const& status) {
  if (!status.ok()) {
    throw std::runtime_error(status.ToString());
  }
}

template <class Builder, class T>
std::shared_ptr<arrow::Array> array_of(std::vector<std::optional<T>> const& values) {
  Builder builder;
  for (auto const& value : values) {
    check_arrow(value ? builder.Append(*value) : builder.AppendNull());
  }
  return builder.Finish().ValueOrDie();
}

/// Returns an array of lists of int32.
inline std::shared_ptr<arrow::Array> lists_of(
    std::vector<std::optional<std::vector<std::int32_t>>> const& lists) {
  auto const values = std::make_shared<arrow::Int32Builder>();
  arrow::ListBuilder builder(arrow::default_memory_pool(), values);
  for (auto const& list : lists) {
    check_arrow(list ? builder.Append() : builder.AppendNull());
    if (list) {
      check_arrow(values->AppendValues(*list));
    }
  }
  return builder.Finish().ValueOrDie();
}

inline std::shared_ptr<arrow::Array> dictionary_of(std::vector<std::string> const& words) {
  arrow::StringDictionaryBuilder builder;
  for (auto const& word : words) {
    check_arrow(builder.Append(word));
  }
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  return array;
}

/// The names and the values of the fields of a file.
using ParquetFields = std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>>;

/// Writes a file of row groups of `group_rows` rows, and returns its path.
inline std::filesystem::path write_parquet(std::filesystem::path path,
                                           ParquetFields const& fields,
                                           std::int64_t group_rows) {
  arrow::FieldVector schema;
  arrow::ArrayVector arrays;
  for (auto const& [field, array] : fields) {
    schema.push_back(arrow::field(field, array->type()));
    arrays.push_back(array);
  }
  auto const table = arrow::Table::Make(arrow::schema(schema), arrays);
  auto const file = arrow::io::FileOutputStream::Open(path.string()).ValueOrDie();
  // Keeps types that Parquet does not have, such as dictionaries.
  auto const keeps_types = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  check_arrow(parquet::arrow::WriteTable(*table,
                                         arrow::default_memory_pool(),
                                         file,
                                         group_rows,
                                         parquet::default_writer_properties(),
                                         keeps_types));
  check_arrow(file->Close());
  return path;
}

}  // namespace msstream::testing
