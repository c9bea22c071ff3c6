// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/table_gradient.hpp"

#include <variant>

namespace msstream::ops::detail {

TableGradientView view_of(TableGradient const& gradient) {
  if (auto const* const part = std::get_if<TablePart>(&gradient)) {
    auto const& all = part->all->rows();
    auto const* const starts = all.table_starts.data() + part->number;
    return {.ids = all.rows.data(),
            .begin = starts,
            .end = starts + 1,
            .values = all.values.data(),
            .first_row = -part->first_row,
            .capacity = part->capacity,
            .stride = all.values.shape()[1]};
  }
  auto const& rows = std::get<RowGradients<AnyRuntime>>(gradient);
  return {.ids = rows.ids.data(),
          .begin = nullptr,
          .end = rows.count.data(),
          .values = rows.values.data(),
          .first_row = 0,
          .capacity = rows.values.shape()[0],
          .stride = rows.values.shape()[1]};
}

void add_gradient(TableGradient const& gradient, Reads& read) {
  if (auto const* const part = std::get_if<TablePart>(&gradient)) {
    auto const& all = part->all->rows();
    read.add(all.rows);
    read.add(all.table_starts);
    read.add(all.values);
  } else {
    auto const& rows = std::get<RowGradients<AnyRuntime>>(gradient);
    read.add(rows.ids);
    read.add(rows.count);
    read.add(rows.values);
  }
}

}  // namespace msstream::ops::detail
