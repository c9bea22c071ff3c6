// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum_host.hpp"
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "embedding_gradient/tables_places.hpp"

#include <algorithm>
#include <cstddef>

namespace msstream::ops::kernels {
namespace {

/// The sizes of a TablePlan that the host implementation needs. The sizes are copied, because the
/// caller need not keep the plan until the work runs.
struct TableSizes {
  std::int64_t count;
  std::int64_t width;         ///< sum over all tables
  std::int64_t widest;        ///< width of the widest table
  std::int64_t argmax_width;  ///< sum of the widths over the tables of Pooling::max

  explicit TableSizes(TablePlan const& plan)
      : count(static_cast<std::int64_t>(plan.tables.size())),
        width(plan.width),
        widest(plan.widest),
        argmax_width(plan.argmax_width) {}
};

template <class T>
void sum_rows_of_tables(TablesGradientArgs const& args, TableSizes const& tables) {
  auto const* const gradient = static_cast<T const*>(args.output_gradient);
  auto const uniques = *args.unique_count;
  for (std::int64_t number = 0; number <= tables.count; ++number) {
    auto const* const end = args.unique_rows + uniques;
    args.table_starts[number] =
        std::lower_bound(args.unique_rows, end, args.first_rows[number]) - args.unique_rows;
  }
  auto const sum_row = [&](std::int64_t number, std::int64_t u) {
    auto const& table = args.tables[number];
    auto* const sum = args.values + u * tables.widest;
    RowTotals totals(sum, table.width);
    for (auto k = args.starts[u]; k < args.starts[u + 1]; ++k) {
      totals.begin_row();
      auto const place = args.positions[k];
      auto const bag = args.bags_of_places[place] - number * args.batch;
      auto const* const row = gradient + bag * tables.width + table.first_column;
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
  };
  auto const bytes = tables.widest * static_cast<std::int64_t>(sizeof(T));
  parallel_rows(args.starts, uniques, grain_of(bytes), [&](std::int64_t begin, std::int64_t end) {
    std::int64_t number = 0;
    for (auto u = begin; u < end; ++u) {
      while (u >= args.table_starts[number + 1]) {
        ++number;
      }
      sum_row(number, u);
    }
  });
}

}  // namespace

void embedding_tables_places(HostStream stream, TablePlacesArgs const& args) {
  TableSizes const tables(*args.bags.plan);
  auto const places = place_capacity(args.bags);
  bool const has_default_ids = args.bags.plan->has_default_ids;
  stream.run([args, tables, places, has_default_ids] {
    with_place_types(args, [&]<class Id, class Row>(Id, Row) {
      if (has_unused_places(args.bags)) {
        std::fill_n(static_cast<Row*>(args.rows), places, Row{-1});
      }
      for (std::int64_t number = 0; number < tables.count; ++number) {
        auto const& table = args.bags.tables[number];
        for (std::int64_t bag = 0; bag < args.bags.batch; ++bag) {
          tell_places<Id, Row>(args, table, has_default_ids, number, bag);
        }
      }
    });
  });
}

std::size_t embedding_tables_gradient_workspace_bytes(HostStream, std::int64_t, std::int64_t) {
  return 0;
}

void embedding_tables_gradient(HostStream stream, TablesGradientArgs const& args) {
  with_real_type("embedding_tables_gradient: a gradient", args.gradient_dtype, [&](auto type) {
    stream.run([args, tables = TableSizes(*args.plan)] {
      sum_rows_of_tables<typename decltype(type)::type>(args, tables);
    });
  });
}

}  // namespace msstream::ops::kernels
