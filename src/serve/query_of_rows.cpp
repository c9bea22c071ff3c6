// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/serve/query_of_rows.hpp>

#include <span>

namespace msstream::serve {

namespace {

DType dtype_of_column(data::Column const& column) {
  return column.becomes_float() ? DType::float32 : DType::int64;
}

/// Throws std::invalid_argument unless the values of a column are those of a field.
void require_column_of(Field const& field, data::Column const& column) {
  require(column.transforms.empty(),
          "serve: a query with raw values of column '{}', which states transforms; expected the "
          "result of data::Transforms::apply()",
          column.name);
  require(dtype_of_column(column) == field.dtype,
          "serve: a query with values of {} in column '{}', for a field that has {}",
          dtype_of_column(column),
          column.name,
          field.dtype);
  bool const has_lists = field.order == Field::Order::lists;
  require(column.is_jagged() == has_lists,
          "serve: a query with {} in column '{}', for a field that has {}",
          column.is_jagged() ? "lists" : "a number of values a row",
          column.name,
          has_lists ? "lists" : "a number of values a row");
  require(has_lists || column.width == field.per_row,
          "serve: a query with {} values a row in column '{}', for a field that has {}",
          column.width,
          column.name,
          field.per_row);
}

}  // namespace

std::vector<Field> fields_of(data::Schema const& schema, std::int64_t list_room) {
  std::vector<Field> fields;
  for (auto const& column : schema.columns()) {
    require(!column.is_jagged() || list_room >= 1,
            "serve: room for {} elements a row of the lists of column '{}'; expected at least 1",
            list_room,
            column.name);
    require(column.converted_by.empty(),
            "serve: a field for column '{}', whose reader converts the values of files by `{}`, "
            "which queries do not repeat; expected transforms of the column, such as hash() and "
            "fill_missing(), or a serve::field() for the converted values",
            column.name,
            column.converted_by);
    fields.push_back({.name = column.name,
                      .dtype = dtype_of_column(column),
                      .per_row = column.is_jagged() ? list_room : column.width,
                      .order = column.is_jagged() ? Field::Order::lists : Field::Order::rows});
  }
  return fields;
}

Query query_of(data::Chunk const& rows, std::vector<Field> const& fields) {
  rows.check();
  Query query{.rows = rows.rows()};
  for (auto const& field : fields) {
    auto const column = rows.schema().index_of(field.name);
    require_column_of(field, rows.schema().columns()[column]);
    bool const has_offsets = field.order == Field::Order::lists && field.offsets_of.empty();
    auto const offsets = has_offsets ? std::span<std::int64_t const>(rows.offsets(column))
                                     : std::span<std::int64_t const>();
    query.values.push_back(
        field.dtype == DType::float32
            ? Query::FieldValues(std::span<float const>(rows.floats(column)), offsets)
            : Query::FieldValues(std::span<std::int64_t const>(rows.ints(column)), offsets));
  }
  return query;
}

}  // namespace msstream::serve
