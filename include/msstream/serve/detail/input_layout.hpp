// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/query.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace msstream::serve {

/// The layout of the fields of a number of rows in one piece of memory: field after field, each
/// starting at a multiple of 256 bytes, so that one copy transfers all of them to the device. The
/// elements of a field are in its Field::Order. Immutable.
class InputLayout {
 public:
  /// Makes a layout. Throws std::invalid_argument if there is no field, if two fields have one
  /// name, or if a field has no elements.
  explicit InputLayout(std::vector<Field> fields);

  [[nodiscard]] std::vector<Field> const& fields() const noexcept { return fields_; }
  /// Returns the index of a field. Throws std::invalid_argument if no field has this name and type.
  [[nodiscard]] std::size_t find(std::string_view name, DType dtype) const;
  /// Returns the byte offset of a field in a piece of memory that is packed for `rows` rows.
  [[nodiscard]] std::size_t offset(std::size_t field, std::int64_t rows) const noexcept;
  /// Returns the size in bytes of a piece of memory that is packed for `rows` rows.
  [[nodiscard]] std::size_t bytes(std::int64_t rows) const noexcept {
    return offset(fields_.size(), rows);
  }

  /// Throws std::invalid_argument unless the query has the values of all fields for its rows.
  void check(Query const& query) const;
  /// Copies a query's values into a piece of memory that is packed for `rows` rows, to the rows
  /// from `begin` on.
  void pack(Query const& query, std::byte* to, std::int64_t rows, std::int64_t begin) const;
  /// Copies `count` rows, packed as a piece of memory of their own at `from`, into the piece at
  /// `to`, which is packed for `rows` rows, to the rows from `begin` on.
  void repack(std::byte const* from,
              std::int64_t count,
              std::byte* to,
              std::int64_t rows,
              std::int64_t begin) const;
  /// Sets the rows from `begin` on to zero, in a piece of memory that is packed for `rows` rows.
  void clear(std::byte* piece, std::int64_t rows, std::int64_t begin) const noexcept;

 private:
  /// The parts of a field in which consecutive rows are adjacent: the whole field if its order is
  /// Field::Order::rows, otherwise each column.
  struct Columns {
    std::int64_t count;
    std::size_t bytes_a_row;  ///< of one column
  };
  [[nodiscard]] Columns columns_of(std::size_t field) const noexcept;
  [[nodiscard]] std::size_t bytes_of_rows(std::size_t field, std::int64_t rows) const noexcept {
    return row_bytes_[field] * static_cast<std::size_t>(rows);
  }

  std::vector<Field> fields_;
  std::vector<std::size_t> row_bytes_;
};

}  // namespace msstream::serve
