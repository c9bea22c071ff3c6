// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/chunk.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/parquet_reader.hpp>

#include <arrow/api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace msstream::data::detail {

/// The rows of a row group that cannot be read, with the first error of each.
using BadGroupRows = std::map<std::int64_t, std::string>;

/// The origin of values, and where to note bad ones.
struct ArrowPlace {
  std::string const& file;
  ParquetColumn const& column;
  std::string const& field;
  Chunk::Words* words;  ///< to which strings are added by their keys; null if they are not kept
  BadGroupRows& bad_rows;
};

/// Throws DataError unless the status is good.
void require_arrow(arrow::Status const& status, std::string const& file);

/// Returns the value of a result. Throws DataError if there is none.
template <class T>
[[nodiscard]] T value_of(arrow::Result<T> result, std::string const& file) {
  require_arrow(result.status(), file);
  return std::move(result).ValueUnsafe();
}

/// Writes the values of a field of `rows` rows to value number `slot` of a column in each row. A
/// value that the column does not take makes its row a bad one.
void append_arrow(ArrowPlace const& place,
                  arrow::ChunkedArray const& values,
                  std::size_t column,
                  std::size_t slot,
                  std::int64_t rows,
                  Chunk& chunk);

}  // namespace msstream::data::detail
