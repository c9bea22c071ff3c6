// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/data/schema.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace msstream::data {

std::string_view to_string(ColumnType type) {
  switch (type) {
    case ColumnType::float32:
      return "float32";
    case ColumnType::int64:
      return "int64";
    case ColumnType::hashed:
      return "hashed";
  }
  return "unknown";
}

Schema::Schema(std::vector<Column> columns) : columns_(std::move(columns)) {
  require(!columns_.empty(), "schema: expected at least one column");
  std::set<std::string_view> names;
  for (auto const& column : columns_) {
    require(!column.name.empty(), "schema: a column has no name");
    require(names.insert(column.name).second, "schema: two columns are named '{}'", column.name);
    require(column.width >= 0,
            "schema: column '{}' has a width of {}; expected at least 1, or kJagged",
            column.name,
            column.width);
  }
  for (auto const& column : columns_) {
    auto const found = std::ranges::find(columns_, column.aligned_with, &Column::name);
    bool const may_align = column.is_jagged() && found != columns_.end() && found->is_jagged() &&
                           found->name != column.name;
    require(column.aligned_with.empty() || may_align,
            "schema: column '{}' is aligned with '{}'; expected two jagged columns",
            column.name,
            column.aligned_with);
  }
}

std::size_t Schema::index_of(std::string_view name) const {
  std::string known;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name == name) {
      return i;
    }
  }
  for (auto const& column : columns_) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", column.name);
  }
  require(false, "there is no column '{}'; the columns are {}", name, known);
  return 0;
}

namespace detail {

void require_part(Column const& column, ColumnPart wanted) {
  if (wanted == ColumnPart::offsets) {
    require(column.is_jagged(), "column '{}' is not jagged, and has no offsets", column.name);
    return;
  }
  require(column.is_float() == (wanted == ColumnPart::floats),
          "column '{}' has values of type {}; asked for {}",
          column.name,
          to_string(column.type),
          wanted == ColumnPart::floats ? "floats" : "integers");
}

std::size_t index_with_part(Schema const& schema, std::string_view name, ColumnPart wanted) {
  auto const index = schema.index_of(name);
  require_part(schema.columns()[index], wanted);
  return index;
}

void require_value_of(std::string_view column,
                      ColumnType type,
                      std::string_view option,
                      std::optional<double> value) {
  constexpr double past_int64 = 9'223'372'036'854'775'808.0;  // 2^63
  auto const number = value.value_or(0.0);
  bool const fits = type == ColumnType::int64 ? number == std::trunc(number) &&
                                                    number >= -past_int64 && number < past_int64
                                              : std::isfinite(static_cast<float>(number));
  require(fits,
          "column '{}' has the {} {}; expected a value of type {}",
          column,
          option,
          number,
          to_string(type));
}

void require_buckets(std::string_view column,
                     ColumnType type,
                     std::int64_t buckets,
                     bool has_transforms) {
  require(
      buckets == 0 || (buckets > 0 && type == ColumnType::hashed),
      "column '{}' has {} buckets and values of type {}; expected buckets from 1, of type hashed",
      column,
      buckets,
      to_string(type));
  require(
      buckets == 0 || !has_transforms,
      "column '{}' has buckets and transforms; expected the transform hash() instead of buckets",
      column);
}

}  // namespace detail

}  // namespace msstream::data
