// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/serve/detail/input_layout.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace msstream::serve {

namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Copies `count` rows of a query, row after row at `from`, to the rows from `begin` on of a field
/// that lies column after column at `to`, with `rows` rows.
void transpose(Field const& field,
               std::byte const* from,
               std::int64_t count,
               std::byte* to,
               std::int64_t rows,
               std::int64_t begin) {
  auto const bytes = bytes_of(field.dtype);
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t column = 0; column < field.per_row; ++column) {
      std::memcpy(to + static_cast<std::size_t>(column * rows + begin + row) * bytes, from, bytes);
      from += bytes;
    }
  }
}

}  // namespace

InputLayout::InputLayout(std::vector<Field> fields) : fields_(std::move(fields)) {
  require(!fields_.empty(), "serve: no inputs; expected at least one field");
  for (auto const& field : fields_) {
    require(field.per_row >= 1,
            "serve: input '{}' has {} elements a row; expected at least 1",
            field.name,
            field.per_row);
    auto const same_name = [&](Field const& other) { return other.name == field.name; };
    require(std::ranges::count_if(fields_, same_name) == 1,
            "serve: two inputs are named '{}'",
            field.name);
    row_bytes_.push_back(static_cast<std::size_t>(field.per_row) * bytes_of(field.dtype));
  }
}

std::size_t InputLayout::find(std::string_view name, DType dtype) const {
  auto const found = std::ranges::find(fields_, name, &Field::name);
  require(found != fields_.end(), "serve: the pool has no input '{}'", name);
  require(found->dtype == dtype,
          "serve: input '{}' has elements of {}, not of {}",
          name,
          found->dtype,
          dtype);
  return static_cast<std::size_t>(found - fields_.begin());
}

std::size_t InputLayout::offset(std::size_t field, std::int64_t rows) const noexcept {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < field; ++i) {
    begin += aligned(bytes_of_rows(i, rows));
  }
  return begin;
}

void InputLayout::check(Query const& query) const {
  require(query.values.size() == fields_.size(),
          "serve: a query with values of {} fields; the pool has {}",
          query.values.size(),
          fields_.size());
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    auto const& given = query.values[i];
    auto const& field = fields_[i];
    require(given.dtype == field.dtype,
            "serve: a query with values of {} for '{}', which has {}",
            given.dtype,
            field.name,
            field.dtype);
    require(given.count == static_cast<std::size_t>(query.rows * field.per_row),
            "serve: a query of {} rows with {} values for '{}', which has {} a row",
            query.rows,
            given.count,
            field.name,
            field.per_row);
  }
}

void InputLayout::pack(Query const& query,
                       std::byte* to,
                       std::int64_t rows,
                       std::int64_t begin) const {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    auto const* const from = static_cast<std::byte const*>(query.values[i].data);
    if (fields_[i].order == Field::Order::rows) {
      std::memcpy(to + bytes_of_rows(i, begin), from, bytes_of_rows(i, query.rows));
    } else {
      transpose(fields_[i], from, query.rows, to, rows, begin);
    }
    to += aligned(bytes_of_rows(i, rows));
  }
}

void InputLayout::repack(std::byte const* from,
                         std::int64_t count,
                         std::byte* to,
                         std::int64_t rows,
                         std::int64_t begin) const {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    auto const [columns, bytes] = columns_of(i);
    for (std::int64_t column = 0; column < columns; ++column) {
      std::memcpy(to + static_cast<std::size_t>(column * rows + begin) * bytes,
                  from + static_cast<std::size_t>(column * count) * bytes,
                  static_cast<std::size_t>(count) * bytes);
    }
    from += aligned(bytes_of_rows(i, count));
    to += aligned(bytes_of_rows(i, rows));
  }
}

void InputLayout::clear(std::byte* piece, std::int64_t rows, std::int64_t begin) const noexcept {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    auto const [columns, bytes] = columns_of(i);
    for (std::int64_t column = 0; column < columns; ++column) {
      std::memset(piece + static_cast<std::size_t>(column * rows + begin) * bytes,
                  0,
                  static_cast<std::size_t>(rows - begin) * bytes);
    }
    piece += aligned(bytes_of_rows(i, rows));
  }
}

InputLayout::Columns InputLayout::columns_of(std::size_t field) const noexcept {
  auto const& of = fields_[field];
  return of.order == Field::Order::rows ? Columns{1, row_bytes_[field]}
                                        : Columns{of.per_row, bytes_of(of.dtype)};
}

}  // namespace msstream::serve
