// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "embedding_gradient/tables_places.hpp"
#include "embedding_gradient/tables_rows_host.hpp"

#include <algorithm>
#include <cstddef>

namespace msstream::ops::kernels {
namespace {

template <class T>
void sum_rows_of_tables(TablesGradientArgs const& args, TableSizes const& tables) {
  auto const uniques = *args.unique_count;
  for (std::int64_t number = 0; number <= tables.count; ++number) {
    auto const* const end = args.unique_rows + uniques;
    args.table_starts[number] =
        std::lower_bound(args.unique_rows, end, args.first_rows[number]) - args.unique_rows;
  }
  for_rows_of_tables<T>(args, tables, [&] {
    return [&](std::int64_t number, std::int64_t u) {
      sum_row_of_table<T>(args, tables, number, u, args.values + u * tables.widest);
    };
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
    stream.run([args, tables = TableSizes(*args.plan, args.gradient_stride)] {
      sum_rows_of_tables<typename decltype(type)::type>(args, tables);
    });
  });
}

}  // namespace msstream::ops::kernels
