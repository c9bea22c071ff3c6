// SPDX-License-Identifier: Apache-2.0
#include "data/chunk_access.hpp"
#include "data/row_error.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/chunk.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/string_key.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace msstream::data {

Chunk::Chunk(std::shared_ptr<Schema const> schema)
    : schema_(std::move(schema)), values_(schema_->columns().size()) {
  clear();
}

std::int64_t Chunk::rows() const noexcept {
  auto const& column = schema_->columns().front();
  auto const& first = values_.front();
  if (column.is_jagged()) {
    return static_cast<std::int64_t>(first.offsets.size()) - 1;
  }
  return static_cast<std::int64_t>(count(0)) / column.width;
}

/// Returns the number of values of a column.
std::size_t Chunk::count(std::size_t column) const noexcept {
  auto const& held = values_[column];
  return schema_->columns()[column].is_float() ? held.floats.size() + held.doubles.size()
                                               : held.ints.size();
}

Chunk::Held const& Chunk::values(std::size_t column, detail::ColumnPart wanted) const {
  require(column < values_.size(), "there is no column {} of {}", column, values_.size());
  detail::require_part(schema_->columns()[column], wanted);
  return values_[column];
}

Chunk::Held& Chunk::values(std::size_t column, detail::ColumnPart wanted) {
  static_cast<void>(std::as_const(*this).values(column, wanted));
  return values_[column];
}

Values<float>& Chunk::floats(std::size_t column) {
  return values(column, detail::ColumnPart::floats).floats;
}
Values<float> const& Chunk::floats(std::size_t column) const {
  return values(column, detail::ColumnPart::floats).floats;
}
Values<float>& Chunk::floats(std::string_view column) {
  return floats(schema_->index_of(column));
}
Values<float> const& Chunk::floats(std::string_view column) const {
  return floats(schema_->index_of(column));
}
Values<double> const& Chunk::doubles(std::size_t column) const {
  auto const& held = values(column, detail::ColumnPart::floats);
  require(!schema_->columns()[column].transforms.empty(),
          "column '{}' has no transforms; asked for doubles, which they round",
          schema_->columns()[column].name);
  return held.doubles;
}
Values<double>& Chunk::doubles(std::size_t column) {
  return const_cast<Values<double>&>(std::as_const(*this).doubles(column));
}
Values<double>& Chunk::doubles(std::string_view column) {
  return doubles(schema_->index_of(column));
}
Values<double> const& Chunk::doubles(std::string_view column) const {
  return doubles(schema_->index_of(column));
}
Values<std::int64_t>& Chunk::ints(std::size_t column) {
  return values(column, detail::ColumnPart::ints).ints;
}
Values<std::int64_t> const& Chunk::ints(std::size_t column) const {
  return values(column, detail::ColumnPart::ints).ints;
}
Values<std::int64_t>& Chunk::ints(std::string_view column) {
  return ints(schema_->index_of(column));
}
Values<std::int64_t> const& Chunk::ints(std::string_view column) const {
  return ints(schema_->index_of(column));
}
Values<std::int64_t>& Chunk::offsets(std::size_t column) {
  return values(column, detail::ColumnPart::offsets).offsets;
}
Values<std::int64_t> const& Chunk::offsets(std::size_t column) const {
  return values(column, detail::ColumnPart::offsets).offsets;
}
Values<std::int64_t>& Chunk::offsets(std::string_view column) {
  return offsets(schema_->index_of(column));
}
Values<std::int64_t> const& Chunk::offsets(std::string_view column) const {
  return offsets(schema_->index_of(column));
}

void Chunk::add_text(std::string_view column, std::string_view text) {
  add_text(schema_->index_of(column), text);
}
void Chunk::add_text(std::size_t column, std::string_view text) {
  auto& keys = ints(column);
  auto const& found = schema_->columns()[column];
  require(found.type == ColumnType::hashed,
          "column '{}' has values of type {}; asked for strings",
          found.name,
          to_string(found.type));
  auto const key = string_key(text);
  keys.push_back(key);
  if (auto* const kept = words(column)) {
    kept->try_emplace(key, text);
  }
}

void Chunk::clear() noexcept {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    values_[i].floats.clear();
    values_[i].doubles.clear();
    values_[i].ints.clear();
    values_[i].offsets.clear();
    if (schema_->columns()[i].is_jagged()) {
      values_[i].offsets.push_back(0);
    }
  }
  numbers_.clear();
  bad_rows_.clear();
  bad_row_log_.reset();
  for (auto& kept : words_) {
    if (kept) {
      kept->clear();
    }
  }
}

void Chunk::check() const {
  try {
    check_rows();
  } catch (detail::RowError const& error) {
    throw DataError(fmt::format("row {}: {}", error.row(), error.what()));
  }
}

void Chunk::check_rows() const {
  auto const all = rows();
  for (std::size_t i = 0; i < values_.size(); ++i) {
    auto const& column = schema_->columns()[i];
    auto const& found = values_[i];
    auto const values = static_cast<std::int64_t>(count(i));
    auto const expect = [&](bool holds, std::string_view expected) {
      if (!holds) {
        throw detail::ChunkError(fmt::format(
            "column '{}' has {} values{}; expected {}",
            column.name,
            values,
            column.is_jagged() ? fmt::format(" and {} offsets", found.offsets.size()) : "",
            expected));
      }
    };
    expect(found.floats.empty() || found.doubles.empty(), "all in floats() or all in doubles()");
    if (!column.is_jagged()) {
      expect(values == all * column.width, fmt::format("{} in each of {} rows", column.width, all));
      continue;
    }
    expect(static_cast<std::int64_t>(found.offsets.size()) == all + 1,
           fmt::format("{} offsets for {} rows", all + 1, all));
    bool ascend = found.offsets.front() == 0 && found.offsets.back() == values;
    for (std::size_t row = 1; row < found.offsets.size(); ++row) {
      ascend = ascend && found.offsets[row - 1] <= found.offsets[row];
    }
    expect(ascend, "offsets that ascend from 0 to the number of values");
  }
  detail::ChunkAccess::for_each_unaligned(*this, [&](std::int64_t row, std::string const& error) {
    throw detail::RowError(detail::ChunkAccess::number_of(*this, row), error);
  });
}

}  // namespace msstream::data
