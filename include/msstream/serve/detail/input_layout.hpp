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
/// elements of a field are in its Field::Order. A field of lists has room for per_row elements for
/// each row, and then, from a multiple of 256 bytes on, the int64 offsets of its lists; and then,
/// if its elements or those of another field with its offsets are int32, also the int32 offsets.
/// Immutable.
class InputLayout {
 public:
  /// A piece of memory that is packed for `rows` rows, of which the first `used` have values.
  struct Packed {
    std::byte const* memory;
    std::int64_t rows;
    std::int64_t used;
  };

  /// Makes a layout. Throws std::invalid_argument if there is no field, if two fields have one
  /// name, if a field has no elements, and if there is no field for Field::offsets_of.
  explicit InputLayout(std::vector<Field> fields);

  [[nodiscard]] std::vector<Field> const& fields() const noexcept { return fields_; }
  /// Returns the index of a field. Throws std::invalid_argument if no field has this name and type.
  [[nodiscard]] std::size_t find(std::string_view name, DType dtype) const;
  /// Returns the index of a field of lists. Throws std::invalid_argument if there is none of this
  /// name, and if it has no offsets of this type.
  [[nodiscard]] std::size_t find_lists(std::string_view name, DType offsets = DType::int64) const;
  /// Returns the byte offset of a field in a piece of memory that is packed for `rows` rows.
  [[nodiscard]] std::size_t offset(std::size_t field, std::int64_t rows) const noexcept;
  /// Returns the byte offset of the offsets [rows + 1], of type int64 or int32, of a field of lists
  /// in a piece of memory that is packed for `rows` rows.
  [[nodiscard]] std::size_t begin_of_offsets(std::size_t field,
                                             std::int64_t rows,
                                             DType offsets = DType::int64) const noexcept;
  /// Returns the size in bytes of a piece of memory that is packed for `rows` rows.
  [[nodiscard]] std::size_t bytes(std::int64_t rows) const noexcept {
    return offset(fields_.size(), rows);
  }

  /// Throws std::invalid_argument unless the query has the values of all fields for its rows.
  void check(Query const& query) const;
  /// Returns the number of rows that a piece of memory needs for a query that check() accepts: its
  /// rows, or more if its lists need the room of further rows. Throws std::invalid_argument if that
  /// is more than `most_rows`, which is at least the number of the query's rows.
  [[nodiscard]] std::int64_t rows_needed(Query const& query, std::int64_t most_rows) const;

  /// Copies a query's values into a piece of memory that is packed for `rows` rows, to the rows
  /// from `begin` on. The rows before must have been packed already, since lists follow each other.
  void pack(Query const& query, std::byte* to, std::int64_t rows, std::int64_t begin) const;
  /// Copies the values of the only query of a piece of memory that is packed for `rows` rows.
  void pack_alone(Query const& query, std::byte* to, std::int64_t rows) const {
    pack(query, to, rows, 0);
    end_lists(to, rows, query.rows);
  }
  /// Copies the used rows of the piece `from` into the piece at `to`, which is packed for `rows`
  /// rows, to the rows from `begin` on, as pack() does.
  void repack(Packed const& from, std::byte* to, std::int64_t rows, std::int64_t begin) const;
  /// Makes the lists of the rows from `begin` on empty, in a piece of memory that is packed for
  /// `rows` rows. The rows before must have been packed already.
  void end_lists(std::byte* piece, std::int64_t rows, std::int64_t begin) const noexcept;
  /// Sets the rows from `begin` on, and all lists, to zero, in a piece of memory that is packed for
  /// `rows` rows.
  void clear(std::byte* piece, std::int64_t rows, std::int64_t begin) const noexcept;

 private:
  /// The parts of a field in which consecutive rows are adjacent: the whole field if its order is
  /// Field::Order::rows, otherwise each column.
  struct Columns {
    std::int64_t count;
    std::size_t bytes_a_row;  ///< of one column
  };
  /// Lists of a field that lie elsewhere. `offsets` is only read for a field that has offsets.
  struct Lists {
    void const* elements;
    std::int64_t const* offsets;
    std::int64_t count;
  };
  /// The rows from `begin` on in a piece of memory that is packed for `rows` rows.
  struct Place {
    std::byte* piece;
    std::int64_t rows;
    std::int64_t begin;
  };
  [[nodiscard]] bool has_lists(std::size_t field) const noexcept {
    return fields_[field].order == Field::Order::lists;
  }
  [[nodiscard]] bool has_offsets(std::size_t field) const noexcept {
    return has_lists(field) && offsets_of_[field] == field;
  }
  /// Returns whether a field of lists, which has offsets, has them as int32 too.
  [[nodiscard]] bool has_narrow_offsets(std::size_t field) const noexcept;
  [[nodiscard]] Columns columns_of(std::size_t field) const noexcept;
  [[nodiscard]] std::size_t bytes_of_rows(std::size_t field, std::int64_t rows) const noexcept {
    return row_bytes_[field] * static_cast<std::size_t>(rows);
  }
  /// Returns the size of a field, rounded up to the beginning of the next one.
  [[nodiscard]] std::size_t bytes_of_field(std::size_t field, std::int64_t rows) const noexcept;
  /// Returns the index of the field whose lists have the lengths of this field's. Throws
  /// std::invalid_argument if there is no such field.
  [[nodiscard]] std::size_t owner_of_offsets(std::size_t field) const;
  [[nodiscard]] std::int64_t* offsets_in(std::byte* piece,
                                         std::size_t field,
                                         std::int64_t rows) const noexcept;
  /// Writes the int32 offsets number `to.begin` to number `last`, if the field has such offsets,
  /// from its int64 offsets.
  void write_narrow_offsets(std::size_t field, Place const& to, std::int64_t last) const noexcept;
  void check_lists(Query const& query, std::size_t field) const;
  /// Appends lists to the first `to.begin` lists of a field.
  void append_lists(std::size_t field, Lists const& lists, Place const& to) const;

  std::vector<Field> fields_;
  std::vector<std::size_t> row_bytes_;
  std::vector<std::size_t> offsets_of_;  ///< for each field of lists, the field with their offsets
};

}  // namespace msstream::serve
