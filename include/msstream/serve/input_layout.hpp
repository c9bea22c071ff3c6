// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/field.hpp>
#include <msstream/serve/query.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace msstream::serve {

/// Where the fields of so many rows lie in one piece of memory: field after field, each from a
/// multiple of 256 bytes on, so that one copy brings all of them to the device. Immutable.
class InputLayout {
 public:
  /// Throws std::invalid_argument when there is no field, two have one name, or one has no
  /// elements.
  explicit InputLayout(std::vector<Field> fields);

  [[nodiscard]] std::vector<Field> const& fields() const noexcept { return fields_; }
  /// The place of a field; throws std::invalid_argument when there is none of that name and type.
  [[nodiscard]] std::size_t find(std::string_view name, DType dtype) const;
  /// Where a field begins among `rows` rows.
  [[nodiscard]] std::size_t offset(std::size_t field, std::int64_t rows) const noexcept;
  /// What `rows` rows take.
  [[nodiscard]] std::size_t bytes(std::int64_t rows) const noexcept {
    return offset(fields_.size(), rows);
  }

  /// Throws std::invalid_argument unless the query has the values of all fields for its rows.
  void check(Query const& query) const;
  /// Copies a query's values to the rows from `begin` on of a piece for `rows` rows.
  void pack(Query const& query, std::byte* to, std::int64_t rows, std::int64_t begin) const;
  /// The same for `count` rows that are packed as a piece of their own.
  void repack(std::byte const* from,
              std::int64_t count,
              std::byte* to,
              std::int64_t rows,
              std::int64_t begin) const;
  /// Zeroes the rows from `begin` on of a piece for `rows` rows.
  void clear(std::byte* piece, std::int64_t rows, std::int64_t begin) const noexcept;

 private:
  template <class SourceOf>
  void copy(SourceOf source_of,
            std::int64_t count,
            std::byte* to,
            std::int64_t rows,
            std::int64_t begin) const;
  [[nodiscard]] std::size_t bytes_of_rows(std::size_t field, std::int64_t rows) const noexcept {
    return row_bytes_[field] * static_cast<std::size_t>(rows);
  }

  std::vector<Field> fields_;
  std::vector<std::size_t> row_bytes_;
};

}  // namespace msstream::serve
