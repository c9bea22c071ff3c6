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

/// A column whose values are one after the other in a file of their own, as numpy's tofile() writes
/// them: in the byte order of this machine, without a header.
struct BinaryColumn {
  /// The type of the values in the file. Integers become a column of type int64, floats one of type
  /// float32.
  enum class Stored : std::uint8_t {
    float32,
    float64,
    int8,
    uint8,
    int16,
    uint16,
    int32,
    uint32,
    int64
  };

  std::string name;            ///< of the column in the schema
  std::filesystem::path path;  ///< of the values, row after row, in the byte order of the machine
  Stored stored = Stored::float32;  ///< the type of the values in the file
  std::int64_t width = 1;           ///< values in each row, at least 1; or kJagged
  /// The file of a jagged column's offsets, [rows + 1] int64, which ascend from 0.
  std::filesystem::path offsets = {};
  std::vector<Transform> transforms = {};  ///< of the column: see Column
};

/// Reads columns that are stored in raw binary files. A position is a row's number, so that seeking
/// costs nothing.
///
/// Throws DataError, which names the file, if a file cannot be read, if files have different
/// numbers of rows, if offsets do not ascend within the values, and, with the row, for a number
/// that is not finite or beyond float32. NaN is a number that is missing if a transform is
/// fill_missing(). Transforms get a float64 before it is rounded.
class BinaryReader final : public Reader {
 public:
  struct Options {
    std::int64_t chunk_rows = 8'192;  ///< that a task reads, at least 1
  };

  /// Opens all files. Throws std::invalid_argument for columns or options that cannot be satisfied.
  BinaryReader(std::vector<BinaryColumn> columns, Options const& options);
  explicit BinaryReader(std::vector<BinaryColumn> columns)
      : BinaryReader(std::move(columns), Options{}) {}
  ~BinaryReader() override;

  /// Returns the number of rows, which all columns have.
  [[nodiscard]] std::int64_t rows() const noexcept;
  [[nodiscard]] Schema const& schema() const override;
  bool next(Chunk& chunk) override;
  [[nodiscard]] Position position() const override;
  void seek(Position const& position) override;
  [[nodiscard]] Task next_task() override;
  [[nodiscard]] std::optional<CountedTask> next_counted_task() override;
  /// Returns the name of the first column's file.
  [[nodiscard]] std::string file_name(std::int64_t file) const override;
  [[nodiscard]] Source source() const override;

 private:
  struct Files;
  std::shared_ptr<Files const> files_;
  std::int64_t chunk_rows_;
  std::int64_t row_ = 0;
};

}  // namespace msstream::data
