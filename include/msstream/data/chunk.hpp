// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/detail/uninitialised_allocator.hpp>
#include <msstream/data/schema.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::data {

namespace detail {
class BadRowLog;
struct ChunkAccess;

/// A row that a reader has left out, where it begins, its number of lines, and why.
struct BadRow {
  std::int64_t file;
  std::int64_t line;
  std::int64_t lines;
  std::string error;
};
}  // namespace detail

/// The values of a column: a vector in which resize() leaves new elements uninitialised.
template <class T>
using Values = std::vector<T, detail::UninitialisedAllocator<T>>;

/// Some consecutive rows in memory, stored by column. A Reader appends the values of its rows to
/// the columns.
///
/// The values of a column that is not jagged are [rows, width]. Those of a jagged column are [sum
/// of the rows' values]; row r has the values [offsets[r], offsets[r + 1]), and offsets[0] is 0.
class Chunk {
 public:
  /// Makes a chunk without rows.
  explicit Chunk(Schema schema) : Chunk(std::make_shared<Schema const>(std::move(schema))) {}
  explicit Chunk(std::shared_ptr<Schema const> schema);

  /// Returns the columns, in their order.
  [[nodiscard]] Schema const& schema() const noexcept { return *schema_; }
  /// Returns the number of rows in the first column.
  [[nodiscard]] std::int64_t rows() const noexcept;

  /// Returns the values of a float32 column. Throws std::invalid_argument for a column of another
  /// type, and if there is no such column.
  [[nodiscard]] Values<float>& floats(std::size_t column);
  [[nodiscard]] Values<float> const& floats(std::size_t column) const;
  [[nodiscard]] Values<float>& floats(std::string_view column);
  [[nodiscard]] Values<float> const& floats(std::string_view column) const;

  /// Returns the values of a float32 column that has transforms, before these round them: a reader
  /// appends its values here or to floats(), and here if float32 does not have them, such as Unix
  /// times. Throws std::invalid_argument for a column of another type or without transforms, and if
  /// there is no such column.
  [[nodiscard]] Values<double>& doubles(std::size_t column);
  [[nodiscard]] Values<double> const& doubles(std::size_t column) const;
  [[nodiscard]] Values<double>& doubles(std::string_view column);
  [[nodiscard]] Values<double> const& doubles(std::string_view column) const;

  /// Returns the values of a column of type int64 or hashed. Throws std::invalid_argument for a
  /// column of another type, and if there is no such column.
  [[nodiscard]] Values<std::int64_t>& ints(std::size_t column);
  [[nodiscard]] Values<std::int64_t> const& ints(std::size_t column) const;
  [[nodiscard]] Values<std::int64_t>& ints(std::string_view column);
  [[nodiscard]] Values<std::int64_t> const& ints(std::string_view column) const;

  /// Returns the offsets of a jagged column, which begin with 0. A reader appends the number of
  /// values so far after each row. Throws std::invalid_argument for a column that is not jagged,
  /// and if there is no such column.
  [[nodiscard]] Values<std::int64_t>& offsets(std::size_t column);
  [[nodiscard]] Values<std::int64_t> const& offsets(std::size_t column) const;
  [[nodiscard]] Values<std::int64_t>& offsets(std::string_view column);
  [[nodiscard]] Values<std::int64_t> const& offsets(std::string_view column) const;

  /// Appends the key of a string to a column of type hashed. Throws std::invalid_argument for a
  /// column of another type, and if there is no such column.
  void add_text(std::string_view column, std::string_view text);
  void add_text(std::size_t column, std::string_view text);

  /// The strings of a column, by their keys.
  using Words = std::unordered_map<std::int64_t, std::string>;
  /// Returns the strings behind the keys of a column, to which a reader that appends keys itself
  /// adds them; null if they are not kept.
  [[nodiscard]] Words* words(std::size_t column) noexcept {
    return words_.empty() || !words_[column] ? nullptr : &*words_[column];
  }
  /// Removes all rows, and keeps the memory for others.
  void clear() noexcept;

  /// Throws DataError, which names the column, unless all columns have equally many rows, the
  /// offsets of jagged ones ascend from 0 to the number of values, and the rows of columns that are
  /// aligned have equally many values.
  void check() const;

 private:
  friend detail::ChunkAccess;
  struct Held {
    Values<float> floats;
    Values<double> doubles;
    Values<std::int64_t> ints;
    Values<std::int64_t> offsets;
  };
  /// Returns the values of a column. Throws std::invalid_argument unless it has those that are
  /// `wanted`.
  [[nodiscard]] Held const& values(std::size_t column, detail::ColumnPart wanted) const;
  [[nodiscard]] Held& values(std::size_t column, detail::ColumnPart wanted);
  [[nodiscard]] std::size_t count(std::size_t column) const noexcept;
  /// Throws as check(), and detail::RowError, which has the row and does not name it, for aligned
  /// columns.
  void check_rows() const;

  std::shared_ptr<Schema const> schema_;
  std::vector<Held> values_;
  std::vector<std::optional<Words>> words_;  ///< empty if no column keeps them
  /// The numbers of the rows among those that were read at once, if some were left out; or empty.
  std::vector<std::int64_t> numbers_;
  std::vector<detail::BadRow> bad_rows_;
  std::shared_ptr<detail::BadRowLog> bad_row_log_;  ///< of the reader that left them out
};

}  // namespace msstream::data
