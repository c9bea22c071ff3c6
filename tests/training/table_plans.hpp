// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/program.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <string_view>

namespace msstream::testing {

/// Changes the plan that a training program has written to a file, so that it has all shardings in
/// turn. Tables whose names begin with `narrow` have one column, and are not divided by columns.
inline void use_all_shardings(std::string const& file, int ranks, std::string_view narrow = "-") {
  auto plan = nlohmann::json::parse(read_all(file));
  auto all = nlohmann::json::array();
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(rank);
  }
  auto number = 0;
  for (auto& at : plan["tables"]) {
    bool const is_narrow = at["table"].get<std::string>().starts_with(narrow);
    switch (is_narrow ? number % 3 : number % 4) {
      case 0:
        at["sharding"] = "table_wise";
        at["ranks"] = {number % ranks};
        break;
      case 1:
        at["sharding"] = "row_wise";
        at["ranks"] = all;
        break;
      case 2:
        at["sharding"] = "replicated";
        at["ranks"] = nlohmann::json::array();
        break;
      default:
        at["sharding"] = "column_wise";
        at["ranks"] = all;
    }
    ++number;
  }
  std::ofstream(file) << plan;
}

}  // namespace msstream::testing
