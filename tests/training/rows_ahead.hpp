// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/program.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::testing {

/// Expects of the timeline of one training step, which a program with tables in parts on several
/// ranks has written, that the step sends rows for the next one before it updates the rows of its
/// tables: early rows, unless they are stale, and none if `lookahead` is "none" or "ids".
///
/// The order of the starts does not depend on how busy the machine is: early rows, and the
/// gradients for which the update waits, are sent one after the other by one stream.
inline void expect_rows_ahead(std::string const& file, std::string_view lookahead) {
  auto const timeline = nlohmann::json::parse(read_all(file));
  std::vector<std::pair<double, std::string>> starts;
  for (auto const& event : timeline["traceEvents"]) {
    if (event["ph"] == "X") {
      starts.emplace_back(event["ts"].get<double>(), event["name"].get<std::string>());
    }
  }
  std::ranges::sort(starts);
  auto const begin = starts.begin();
  auto const find = [&](auto from, std::string_view name) {
    return std::find_if(
        from, starts.end(), [&](auto const& start) { return start.second.ends_with(name); });
  };
  auto const update = find(begin, "update_tables");
  ASSERT_NE(update, starts.end()) << lookahead;
  auto const count = [&](std::string_view name) {
    return std::count_if(
        begin, update, [&](auto const& start) { return start.second.ends_with(name); });
  };
  bool const are_untouched = lookahead == "rows";
  EXPECT_EQ(count("/packed_early_bags"), are_untouched ? 1 : 0) << lookahead;
  EXPECT_EQ(count("/packed_late_bags"), are_untouched ? 1 : 0) << lookahead;
  // Ids, rows and gradients, and early rows besides late ones.
  EXPECT_EQ(count("/all_to_all"), are_untouched ? 4 : 3) << lookahead;
  // The lookup that reads the rows to be sent ahead comes behind the exchange of its ids. Without
  // rows ahead, that exchange may be before or after the lookups of the step.
  bool const are_ahead = are_untouched || lookahead == "stale_rows";
  auto const ids = find(begin, "/received_ids");
  ASSERT_NE(ids, starts.end()) << lookahead;
  if (are_ahead || lookahead == "none") {
    EXPECT_LT(find(ids, "/embedding_tables_lookup"), update) << lookahead;
  }
  auto const packed = find(begin, "/packed_early_bags");
  EXPECT_EQ(packed < update && find(packed, "/all_to_all") < update, are_untouched) << lookahead;
  EXPECT_EQ(std::find_if(update,
                         starts.end(),
                         [](auto const& start) { return start.second.ends_with("/all_to_all"); }),
            starts.end())
      << lookahead;
}

}  // namespace msstream::testing
