// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/parallel/sharded_bags.hpp"
#include "step/parallel/table_layout.hpp"

#include <msstream/step/sharded_tables.hpp>

#include <cstdint>
#include <set>
#include <vector>

namespace msstream::testing {

[[nodiscard]] inline std::vector<TableSpec> specs_of_prefetch() {
  return {{.name = "hot", .rows = 40, .width = 3, .hotness = 2},
          {.name = "cold", .rows = 200, .width = 2, .hotness = 2}};
}

/// The distinct rows of a table in a range that bags name.
[[nodiscard]] inline std::set<std::int64_t> rows_named(std::vector<BagLists> const& lists,
                                                       detail::TableBlock const& block) {
  std::set<std::int64_t> rows;
  for (auto const& list : lists) {
    for (auto const& bag : list[block.table]) {
      for (auto const id : bag) {
        if (id >= block.first_row && id < block.first_row + block.rows) {
          rows.insert(id);
        }
      }
    }
  }
  return rows;
}

}  // namespace msstream::testing
