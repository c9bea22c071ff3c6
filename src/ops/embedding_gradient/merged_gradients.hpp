// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/embedding/table_gradient.hpp"

#include <msstream/base/shape.hpp>
#include <msstream/ops/embedding.hpp>

#include <cstdint>
#include <source_location>
#include <vector>

namespace msstream::ops::detail {

/// Returns a gradient with tensors of its own, of rows of `width` columns. Copies the rows of one
/// table among those of many.
[[nodiscard]] RowGradients<AnyRuntime> own_rows(TableGradient const& gradient,
                                                std::int64_t width,
                                                std::source_location issued_at);
/// Copies the rows of a gradient to the beginning of `ids` [capacity] and `values` [capacity,
/// columns], whose capacity is at least the number of rows that have a gradient. The ids behind
/// them become -1, and the values behind them are not written.
void copy_rows(TableGradient const& gradient,
               TensorOf<std::int64_t> const& ids,
               Floats const& values,
               std::source_location issued_at);
/// Copies the ids of the rows that have a gradient, of which there are *count, to the beginning of
/// `to` [capacity], whose capacity is at least that number. The ids behind them become -1.
void copy_ids(TensorOf<std::int64_t> const& ids,
              TensorOf<std::int64_t> const& count,
              TensorOf<std::int64_t> const& to,
              std::source_location issued_at);
/// Returns the gradient of a table of `rows` rows from ids, of which any may be equal or -1, and
/// their values [ids, width]. Adds the values of equal ids in their order.
[[nodiscard]] RowGradients<AnyRuntime> sum_of_rows(TensorOf<std::int64_t> const& ids,
                                                   Floats const& values,
                                                   std::int64_t rows,
                                                   std::source_location issued_at);
/// Like merge_row_gradients(), for a table of the given shape.
[[nodiscard]] RowGradients<AnyRuntime> merged_gradients(std::vector<TableGradient> const& parts,
                                                        Shape const& table,
                                                        std::vector<std::int64_t> const& first_rows,
                                                        std::source_location issued_at);

}  // namespace msstream::ops::detail
