// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/common/bag_view.hpp"
#include "ops/embedding/tables_gradient.hpp"

#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>

#include <cstdint>
#include <memory>
#include <variant>

namespace msstream::ops::detail {

/// The gradient of one table among those of many, which share their tensors.
struct TablePart {
  std::shared_ptr<TablesGradient const> all;
  std::int64_t number;     ///< the table's number
  std::int64_t first_row;  ///< the index of the table's first row among the rows of all tables
  std::int64_t capacity;   ///< no more rows of the table have a gradient
};

/// The row-sparse gradient of a table, in tensors of its own or in those of many tables.
using TableGradient = std::variant<RowGradients<AnyRuntime>, TablePart>;

/// The arrays of a row-sparse gradient for kernels: the row indices ids[u] + first_row, and the
/// values from values[u * stride] on, for u in [*begin, *end). view_of() computes gradients that
/// are not computed yet.
struct TableGradientView {
  std::int64_t const* ids;
  std::int64_t const* begin;  ///< device scalar, or null for 0
  std::int64_t const* end;    ///< device scalar
  float const* values;
  std::int64_t first_row;
  std::int64_t capacity;  ///< at least *end - *begin
  std::int64_t stride;
};
[[nodiscard]] TableGradientView view_of(TableGradient const& gradient);
/// Adds the tensors of the gradient to those that an operation reads.
void add_gradient(TableGradient const& gradient, Reads& read);

}  // namespace msstream::ops::detail
