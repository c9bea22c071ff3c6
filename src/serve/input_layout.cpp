// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/serve/detail/input_layout.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

namespace msstream::serve {

namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t bytes_of_offsets(std::int64_t rows, DType dtype) {
  return aligned((static_cast<std::size_t>(rows) + 1) * bytes_of(dtype));
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
    offsets_of_.push_back(owner_of_offsets(row_bytes_.size() - 1));
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

std::size_t InputLayout::find_lists(std::string_view name, DType offsets) const {
  auto const found = std::ranges::find(fields_, name, &Field::name);
  require(found != fields_.end(), "serve: the pool has no input '{}'", name);
  require(found->order == Field::Order::lists,
          "serve: offsets of input '{}', which has {} elements a row; expected a field of "
          "Field::Order::lists",
          name,
          found->per_row);
  auto const field = static_cast<std::size_t>(found - fields_.begin());
  require(offsets == DType::int64 || has_narrow_offsets(offsets_of_[field]),
          "serve: offsets of {} of input '{}', whose lists have elements of {}; expected int64",
          offsets,
          name,
          found->dtype);
  return field;
}

bool InputLayout::has_narrow_offsets(std::size_t field) const noexcept {
  for (std::size_t i = field; i < fields_.size(); ++i) {
    if (has_lists(i) && offsets_of_[i] == field && fields_[i].dtype == DType::int32) {
      return true;
    }
  }
  return false;
}

std::size_t InputLayout::offset(std::size_t field, std::int64_t rows) const noexcept {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < field; ++i) {
    begin += bytes_of_field(i, rows);
  }
  return begin;
}

std::size_t InputLayout::begin_of_offsets(std::size_t field,
                                          std::int64_t rows,
                                          DType offsets) const noexcept {
  auto const owner = offsets_of_[field];
  auto const wide = offset(owner, rows) + aligned(bytes_of_rows(owner, rows));
  return offsets == DType::int64 ? wide : wide + bytes_of_offsets(rows, DType::int64);
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
    if (has_lists(i)) {
      check_lists(query, i);
      continue;
    }
    require(given.offsets.empty(),
            "serve: a query with offsets for '{}', which has no lists, but {} values a row",
            field.name,
            field.per_row);
    require(given.count == static_cast<std::size_t>(query.rows * field.per_row),
            "serve: a query of {} rows with {} values for '{}', which has {} a row",
            query.rows,
            given.count,
            field.name,
            field.per_row);
  }
}

std::int64_t InputLayout::rows_needed(Query const& query, std::int64_t most_rows) const {
  auto needed = query.rows;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (has_lists(i)) {
      auto const count = static_cast<std::int64_t>(query.values[i].count);
      auto const per_row = fields_[i].per_row;
      require(count <= most_rows * per_row,
              "serve: a query with {} values for '{}'; the largest bucket has room for {}, {} for "
              "each of its {} rows",
              count,
              fields_[i].name,
              most_rows * per_row,
              per_row,
              most_rows);
      needed = std::max(needed, (count + per_row - 1) / per_row);
    }
  }
  return needed;
}

void InputLayout::pack(Query const& query,
                       std::byte* to,
                       std::int64_t rows,
                       std::int64_t begin) const {
  Place const place{to, rows, begin};
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    auto const& given = query.values[i];
    auto const* const from = static_cast<std::byte const*>(given.data);
    switch (fields_[i].order) {
      case Field::Order::rows:
        std::memcpy(to + bytes_of_rows(i, begin), from, bytes_of_rows(i, query.rows));
        break;
      case Field::Order::columns:
        transpose(fields_[i], from, query.rows, to, rows, begin);
        break;
      case Field::Order::lists: {
        std::int64_t const only_list[] = {0, static_cast<std::int64_t>(given.count)};
        auto const* const offsets = given.offsets.empty() ? only_list : given.offsets.data();
        append_lists(i, {from, offsets, query.rows}, place);
        break;
      }
    }
    to += bytes_of_field(i, rows);
  }
}

void InputLayout::repack(Packed const& from,
                         std::byte* to,
                         std::int64_t rows,
                         std::int64_t begin) const {
  Place const place{to, rows, begin};
  auto const* memory = from.memory;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (has_lists(i)) {
      auto const* const offsets = memory + aligned(bytes_of_rows(i, from.rows));
      append_lists(i, {memory, reinterpret_cast<std::int64_t const*>(offsets), from.used}, place);
    } else {
      auto const [columns, bytes] = columns_of(i);
      for (std::int64_t column = 0; column < columns; ++column) {
        std::memcpy(to + static_cast<std::size_t>(column * rows + begin) * bytes,
                    memory + static_cast<std::size_t>(column * from.rows) * bytes,
                    static_cast<std::size_t>(from.used) * bytes);
      }
    }
    memory += bytes_of_field(i, from.rows);
    to += bytes_of_field(i, rows);
  }
}

void InputLayout::end_lists(std::byte* piece,
                            std::int64_t rows,
                            std::int64_t begin) const noexcept {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (has_offsets(i)) {
      auto* const offsets = offsets_in(piece, i, rows);
      std::fill(offsets + begin + 1, offsets + rows + 1, offsets[begin]);
      write_narrow_offsets(i, {piece, rows, begin}, rows);
    }
  }
}

void InputLayout::clear(std::byte* piece, std::int64_t rows, std::int64_t begin) const noexcept {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (has_lists(i)) {
      std::memset(piece, 0, bytes_of_field(i, rows));
      piece += bytes_of_field(i, rows);
      continue;
    }
    auto const [columns, bytes] = columns_of(i);
    for (std::int64_t column = 0; column < columns; ++column) {
      std::memset(piece + static_cast<std::size_t>(column * rows + begin) * bytes,
                  0,
                  static_cast<std::size_t>(rows - begin) * bytes);
    }
    piece += bytes_of_field(i, rows);
  }
}

InputLayout::Columns InputLayout::columns_of(std::size_t field) const noexcept {
  auto const& of = fields_[field];
  return of.order == Field::Order::rows ? Columns{1, row_bytes_[field]}
                                        : Columns{of.per_row, bytes_of(of.dtype)};
}

std::size_t InputLayout::bytes_of_field(std::size_t field, std::int64_t rows) const noexcept {
  auto bytes = aligned(bytes_of_rows(field, rows));
  if (has_offsets(field)) {
    bytes += bytes_of_offsets(rows, DType::int64);
    bytes += has_narrow_offsets(field) ? bytes_of_offsets(rows, DType::int32) : 0;
  }
  return bytes;
}

std::size_t InputLayout::owner_of_offsets(std::size_t field) const {
  auto const& of = fields_[field];
  if (of.offsets_of.empty()) {
    return field;
  }
  require(of.order == Field::Order::lists,
          "serve: input '{}' has offsets_of '{}', but no lists; expected Field::Order::lists",
          of.name,
          of.offsets_of);
  for (std::size_t i = 0; i < field; ++i) {
    if (fields_[i].name == of.offsets_of && has_offsets(i)) {
      require(fields_[i].per_row == of.per_row,
              "serve: input '{}' has room for {} elements a row, and '{}', whose offsets it has, "
              "for {}",
              of.name,
              of.per_row,
              of.offsets_of,
              fields_[i].per_row);
      return i;
    }
  }
  throw std::invalid_argument(
      fmt::format("serve: input '{}' has offsets_of '{}'; expected a field of lists in front of "
                  "it, with offsets of its own",
                  of.name,
                  of.offsets_of));
}

std::int64_t* InputLayout::offsets_in(std::byte* piece,
                                      std::size_t field,
                                      std::int64_t rows) const noexcept {
  return reinterpret_cast<std::int64_t*>(piece + begin_of_offsets(field, rows, DType::int64));
}

void InputLayout::write_narrow_offsets(std::size_t field,
                                       Place const& to,
                                       std::int64_t last) const noexcept {
  if (has_narrow_offsets(field)) {
    auto const* const wide = offsets_in(to.piece, field, to.rows);
    auto* const narrow =
        reinterpret_cast<std::int32_t*>(to.piece + begin_of_offsets(field, to.rows, DType::int32));
    std::transform(wide + to.begin, wide + last + 1, narrow + to.begin, [](std::int64_t offset) {
      return static_cast<std::int32_t>(offset);
    });
  }
}

void InputLayout::check_lists(Query const& query, std::size_t field) const {
  auto const& [data, count, dtype, offsets] = query.values[field];
  auto const& name = fields_[field].name;
  if (!has_offsets(field)) {
    auto const& owner = fields_[offsets_of_[field]].name;
    auto const expected = query.values[offsets_of_[field]].count;
    require(offsets.empty() && count == expected,
            "serve: a query with {} values and {} offsets for '{}'; expected as many values as for "
            "'{}', {}, and no offsets",
            count,
            offsets.size(),
            name,
            owner,
            expected);
    return;
  }
  if (offsets.empty()) {
    require(query.rows == 1,
            "serve: a query of {} rows without offsets for the lists of '{}'; expected rows + 1",
            query.rows,
            name);
    return;
  }
  require(offsets.size() == static_cast<std::size_t>(query.rows) + 1,
          "serve: a query of {} rows with {} offsets for '{}'; expected rows + 1",
          query.rows,
          offsets.size(),
          name);
  auto const end = static_cast<std::int64_t>(count);
  require(offsets.front() == 0 && offsets.back() == end,
          "serve: a query with offsets from {} to {} for the {} values of '{}'; expected 0 to {}",
          offsets.front(),
          offsets.back(),
          count,
          name,
          end);
  auto const descent = std::ranges::adjacent_find(offsets, std::greater());
  require(descent == offsets.end(),
          "serve: a query with offsets for '{}' that descend, from offset number {} on",
          name,
          descent - offsets.begin());
}

void InputLayout::append_lists(std::size_t field, Lists const& lists, Place const& to) const {
  auto* const offsets = offsets_in(to.piece, offsets_of_[field], to.rows) + to.begin;
  if (has_offsets(field)) {
    auto const base = to.begin == 0 ? 0 : offsets[0];
    std::transform(
        lists.offsets, lists.offsets + lists.count + 1, offsets, [base](std::int64_t offset) {
          return base + offset;
        });
    write_narrow_offsets(field, to, to.begin + lists.count);
  }
  auto const bytes = bytes_of(fields_[field].dtype);
  auto const first = static_cast<std::size_t>(offsets[0]);
  auto const count = static_cast<std::size_t>(offsets[lists.count]) - first;
  if (count > 0) {
    std::memcpy(to.piece + offset(field, to.rows) + first * bytes, lists.elements, count * bytes);
  }
}

}  // namespace msstream::serve
