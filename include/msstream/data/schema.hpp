// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/transform.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::data {

/// The type of the values of a column.
enum class ColumnType : std::uint8_t {
  float32,
  int64,
  hashed,  ///< strings, of which each becomes the int64 that string_key() returns
};

/// Returns the name of the type, as in messages.
[[nodiscard]] std::string_view to_string(ColumnType type);

/// The width of a column that has any number of values in a row.
inline constexpr std::int64_t kJagged = 0;

/// A named column: values of one type, in each row `width` of them.
struct Column {
  std::string name;                       ///< unique in its schema
  ColumnType type = ColumnType::float32;  ///< of the values
  std::int64_t width = 1;                 ///< values in each row, at least 1; or kJagged
  /// The steps that turn the values into what a model gets, in order: see Transforms.
  std::vector<Transform> transforms = {};
  /// The name of another jagged column, of which each row has as many values as the row of this
  /// one, such as the ids that weights or times belong to; rows in which the numbers differ are an
  /// error. Empty: any number.
  std::string aligned_with = {};
  /// The option of the reader by which it converts values of its files, such as "buckets": queries
  /// of a server do not repeat it. Readers set it; it is no part of the values, and not compared.
  std::string converted_by = {};

  /// Returns whether rows have any number of values, so that a batch has offsets.
  [[nodiscard]] bool is_jagged() const noexcept { return width == kJagged; }
  /// Returns whether values are float32, which Batch::floats() returns.
  [[nodiscard]] bool is_float() const noexcept { return type == ColumnType::float32; }
  /// Returns whether the values are float32 once the transforms have been applied.
  [[nodiscard]] bool becomes_float() const noexcept {
    bool const shortened = transforms.empty() || transforms.back().shortens();
    return shortened ? is_float() : !transforms.back().makes_ids();
  }
  friend bool operator==(Column const& a, Column const& b) {
    return a.name == b.name && a.type == b.type && a.width == b.width &&
           a.transforms == b.transforms && a.aligned_with == b.aligned_with;
  }
};

/// The columns of the rows of a reader, in their order.
class Schema {
 public:
  /// Throws std::invalid_argument unless there is a column, all columns have different names and a
  /// width of at least 0, and only jagged ones are aligned, with others.
  explicit Schema(std::vector<Column> columns);

  [[nodiscard]] std::vector<Column> const& columns() const& noexcept { return columns_; }
  /// Returns the columns of a temporary, which do not end with it.
  [[nodiscard]] std::vector<Column> columns() && noexcept { return std::move(columns_); }
  /// Returns the index of the column. Throws std::invalid_argument, which lists the columns that
  /// there are, if no column has that name.
  [[nodiscard]] std::size_t index_of(std::string_view name) const;

  friend bool operator==(Schema const&, Schema const&) = default;

 private:
  std::vector<Column> columns_;
};

namespace detail {

/// The values of a column that a caller asks for.
enum class ColumnPart : std::uint8_t { floats, ints, offsets };

/// Throws std::invalid_argument unless the column has such values.
void require_part(Column const& column, ColumnPart wanted);

/// Returns the index of the column. Throws std::invalid_argument if there is no such column, or if
/// it does not have such values.
[[nodiscard]] std::size_t index_with_part(Schema const& schema,
                                          std::string_view name,
                                          ColumnPart wanted);

/// Throws std::invalid_argument, which names the column and the option, for a value that is not
/// null unless the type has it: a finite float32, a whole number within int64.
void require_value_of(std::string_view column,
                      ColumnType type,
                      std::string_view option,
                      std::optional<double> value);
/// Throws std::invalid_argument, which names the column, for buckets other than 0 unless they are
/// more, the values are hashed, and no transforms make ids of them.
void require_buckets(std::string_view column,
                     ColumnType type,
                     std::int64_t buckets,
                     bool has_transforms);

}  // namespace detail

}  // namespace msstream::data
