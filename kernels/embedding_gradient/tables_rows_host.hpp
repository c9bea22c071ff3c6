// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/long_sum_host.hpp"
#include "common/parallel_rows_host.hpp"
#include "embedding_gradient/tables_gradient.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

/// The sizes of a TablePlan that the host implementation needs. The sizes are copied, because the
/// caller need not keep the plan until the work runs.
struct TableSizes {
  std::int64_t count;
  std::int64_t stride;        ///< elements from one row of the output gradient to the next
  std::int64_t widest;        ///< width of the widest table
  std::int64_t argmax_width;  ///< sum of the widths over the tables of Pooling::max

  explicit TableSizes(TablePlan const& plan, std::int64_t gradient_stride = 0)
      : count(static_cast<std::int64_t>(plan.tables.size())),
        stride(stride_or(gradient_stride, plan.width)),
        widest(plan.widest),
        argmax_width(plan.argmax_width) {}
};

/// Computes the gradient of the u-th distinct row, which belongs to table `number`, in `sum` [width
/// of the table].
template <class T>
void sum_row_of_table(TablesGradientArgs const& args,
                      TableSizes const& tables,
                      std::int64_t number,
                      std::int64_t u,
                      float* sum) {
  auto const* const gradient = static_cast<T const*>(args.output_gradient);
  auto const& table = args.tables[number];
  RowTotals totals(sum, table.width);
  for (auto k = args.starts[u]; k < args.starts[u + 1]; ++k) {
    totals.begin_row();
    auto const place = args.positions[k];
    auto const bag = args.bags_of_places[place] - number * args.batch;
    auto const* const row = gradient + bag * tables.stride + table.first_column;
    float const factor = args.factors != nullptr ? args.factors[place] : 1.0F;
    if (args.argmax != nullptr && table.pooling == Pooling::max) {
      auto const* const winners =
          args.argmax + bag * tables.argmax_width + table.first_argmax_column;
      for (std::int32_t c = 0; c < table.width; ++c) {
        sum[c] += winners[c] == place ? factor * to_float(row[c]) : 0.0F;
      }
      continue;
    }
    for (std::int32_t c = 0; c < table.width; ++c) {
      sum[c] += factor * to_float(row[c]);
    }
  }
  totals.finish();
}

/// Calls make() for ranges of the distinct rows, on several threads, and the function that it
/// returns with (number, u) for all distinct rows of its range, and with the table of each.
template <class T, class Make>
void for_rows_of_tables(TablesGradientArgs const& args,
                        TableSizes const& tables,
                        Make const& make) {
  auto const uniques = *args.unique_count;
  auto const bytes = tables.widest * static_cast<std::int64_t>(sizeof(T));
  parallel_rows(args.starts, uniques, grain_of(bytes), [&](std::int64_t begin, std::int64_t end) {
    auto const* const borders = args.first_rows + tables.count + 1;
    auto function = make();
    auto const* behind = std::upper_bound(args.first_rows, borders, args.unique_rows[begin]);
    for (auto u = begin; u < end; ++u) {
      while (args.unique_rows[u] >= *behind) {
        ++behind;
      }
      function(behind - args.first_rows - 1, u);
    }
  });
}

}  // namespace msstream::ops::kernels
