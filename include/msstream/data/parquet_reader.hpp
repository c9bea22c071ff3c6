// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace msstream::data {

/// A column that is read from the fields of Parquet files.
struct ParquetColumn {
  std::string name;                       ///< of the column in the schema
  ColumnType type = ColumnType::float32;  ///< to which the file's values are converted
  /// The names of the top-level fields whose values make the column, of which each is one of its
  /// values in a row. Empty: the field `name`.
  std::vector<std::string> fields = {};
  bool jagged = false;  ///< reads one field that holds lists, of any lengths
  /// The value of a null of type float32 or int64. Without it, a null is an error, or a number that
  /// is missing if a transform is fill_missing(). A null of type hashed has the key of the empty
  /// string, without this option, and a list that is null has no values.
  std::optional<double> if_null = {};
  /// If it is not 0, each value of type hashed is reduced to its row in a table of so many rows, by
  /// bucket_of().
  std::int64_t buckets = 0;
  std::vector<Transform> transforms = {};  ///< of the column: see Column
  std::string aligned_with = {};           ///< likewise
};

struct ParquetOptions {
  /// The number of rows that may be left out because they cannot be read: nulls without if_null,
  /// numbers that the column does not take, and aligned lists of unequal lengths. See bad_rows().
  std::int64_t max_bad_rows = 0;
};

/// Reads Parquet files with Arrow C++. A program that uses it links msstream::parquet, which is
/// built if the CMake option MSSTREAM_ARROW says where Arrow is.
///
/// A column of type float32 takes fields of floating-point numbers, of 16 bits too, integers of all
/// widths and booleans. One of type int64 takes integers, booleans, and floating-point numbers of
/// 32 and 64 bits that are whole, of magnitudes up to 2^24 and 2^53; there, NaN counts as a null if
/// there is an if_null. One of type hashed takes strings, also as a dictionary. Both kinds of
/// numbers take dates and timestamps, as the integers in the file. A task reads a row group. Other
/// fields of a file are not read.
///
/// Throws DataError, which names the file and the column, for a missing field, a field of another
/// type and a file that Arrow cannot read; and, with the row and its row group, for a null without
/// if_null, a number that int64 does not have or that may have been rounded to a whole one, and a
/// number that is no finite float32. A NaN is
/// missing if a transform is fill_missing(). With transforms, numbers have the range of double.
class ParquetReader final : public Reader {
 public:
  /// Opens the first file. Throws DataError, and std::invalid_argument for columns that cannot be
  /// satisfied.
  ParquetReader(std::vector<std::filesystem::path> files,
                std::vector<ParquetColumn> columns,
                ParquetOptions const& options = {});
  ParquetReader(std::filesystem::path file,
                std::vector<ParquetColumn> columns,
                ParquetOptions const& options = {})
      : ParquetReader(std::vector{std::move(file)}, std::move(columns), options) {}
  ~ParquetReader() override;

  [[nodiscard]] Schema const& schema() const override;
  bool next(Chunk& chunk) override;
  /// Returns the place in front of a row group.
  [[nodiscard]] Position position() const override;
  void seek(Position const& position) override;
  [[nodiscard]] Task next_task() override;
  [[nodiscard]] std::optional<CountedTask> next_counted_task() override;
  [[nodiscard]] std::string file_name(std::int64_t file) const override;
  [[nodiscard]] Source source() const override;
  [[nodiscard]] BadRows bad_rows() const override;

 private:
  class Files;
  std::unique_ptr<Files> files_;
};

}  // namespace msstream::data
