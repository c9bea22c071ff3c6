// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/require_int32.hpp"
#include "embedding/table_rows.hpp"
#include "ids/bag_layout.hpp"
#include "ids/hash_functions.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// Throws std::invalid_argument if there are more ids of fixed hotness than IdBags::bag_of() finds
/// the bags of.
inline void require_table_rows(TableRowsArgs const& args) {
  if (args.bags.offsets == nullptr) {
    require_int32(args.hashed ? "hash_to_tables" : "rows_of_tables", args.bags.capacity, "ids");
  }
}

/// The result of looking up one id in tables that are stored one after the other: its row, or -1 if
/// the id is bad or in a bag with invalid offsets. The CPU and the CUDA implementation share the
/// arithmetic.
struct TableRow {
  std::int64_t id;
  std::int64_t row;
  std::int64_t table;
  std::int64_t rows_of_table;
  bool is_valid;
};

[[nodiscard]] constexpr TableRow table_row_of(TableRowsArgs const& args,
                                              IdBags<std::int64_t> const& bags,
                                              std::int64_t place) {
  auto const bag = bags.bag_of(place);
  if (bag < 0) {
    return {0, -1, 0, 0, true};
  }
  auto const sample = bag / args.tables;
  auto const table = bag - sample * args.tables;
  auto const first = args.first_rows[table];
  auto const count = args.first_rows[table + 1] - first;
  auto position = place;
  if (args.ids_by_table) {
    position += (table * (bags.bags / args.tables) + sample - bag) * bags.hotness;
  }
  auto const id = bags.ids[position];
  if (args.hashed) {
    return {id, first + bucket_of(id, args.salt, count), table, count, true};
  }
  bool const is_valid = is_in_range(id, count);
  return {id, is_valid ? first + id : -1, table, count, is_valid};
}

}  // namespace msstream::ops::kernels
