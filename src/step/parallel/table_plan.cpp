// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/step/table_plan.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace msstream {
namespace {

void require_spec(TableSpec const& table) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require(table.rows >= 1 && table.width >= 1 && table.width <= kMost,
          "table '{}': {} rows of width {}; expected at least 1 row, and a width of 1 to {}",
          table.name,
          table.rows,
          table.width,
          kMost);
  require(table.hotness >= 1 && table.hotness <= kMost,
          "table '{}': a hotness of {}; expected 1 to {}",
          table.name,
          table.hotness,
          kMost);
  require(table.most_distinct >= 0,
          "table '{}': at most {} distinct rows; expected at least 1, or 0 for no bound",
          table.name,
          table.most_distinct);
  require(detail::is_utf8(table.name) && table.name.find_first_of("*?") == std::string::npos,
          "table '{}': expected a name in UTF-8, without * and ?, which patterns have",
          table.name);
  require(table.pooling != ops::Pooling::none,
          "table '{}': Pooling::none; expected a pooling of bags",
          table.name);
  require(table.dtype == DType::float32 || table.dtype == DType::float16 ||
              table.dtype == DType::bfloat16,
          "table '{}': elements of {}; expected float32, float16 or bfloat16",
          table.name,
          table.dtype);
  require(!table.default_id || (*table.default_id >= 0 && *table.default_id < table.rows),
          "table '{}': a default id of {}; expected 0 to {}",
          table.name,
          table.default_id.value_or(0),
          table.rows - 1);
}

void require_placement(TableSpec const& table, TablePlacement const& at, int ranks, SentRows sent) {
  require(at.table == table.name,
          "the plan has table '{}' in the place of '{}'; expected the tables in their order",
          at.table,
          table.name);
  auto const name = name_of(at.sharding);
  require(name != "unknown",
          "table '{}': an unknown sharding, {}",
          table.name,
          static_cast<int>(at.sharding));
  for (int const rank : at.ranks) {
    require(rank >= 0 && rank < ranks,
            "table '{}', {}: rank {}; expected ranks in [0, {})",
            table.name,
            name,
            rank,
            ranks);
  }
  auto const parts = std::ssize(at.ranks);
  require(std::set<int>(at.ranks.begin(), at.ranks.end()).size() == at.ranks.size(),
          "table '{}', {}: a rank occurs twice among [{}]; expected one part a rank",
          table.name,
          name,
          fmt::join(at.ranks, ", "));
  switch (at.sharding) {
    case Sharding::table_wise:
      require(parts == 1, "table '{}', table_wise: {} ranks; expected one", table.name, parts);
      break;
    case Sharding::row_wise:
    case Sharding::column_wise: {
      bool const by_rows = at.sharding == Sharding::row_wise;
      auto const most = by_rows ? table.rows : table.width;
      require(parts >= 1 && parts <= most,
              "table '{}', {}: {} ranks for {} {}; expected at least one of them for each rank",
              table.name,
              name,
              parts,
              most,
              by_rows ? "rows" : "columns");
      break;
    }
    case Sharding::replicated:
      require(parts == 0 || parts == ranks,
              "table '{}', replicated: {} ranks; expected none, which means all, or all {}",
              table.name,
              parts,
              ranks);
      break;
  }
  require(sent == SentRows::distinct || table.pooling != ops::Pooling::max ||
              at.sharding == Sharding::table_wise || at.sharding == Sharding::column_wise,
          "table '{}', {}: Pooling::max; expected table_wise or column_wise, another pooling, or "
          "SentRows::distinct",
          table.name,
          name);
}

}  // namespace

std::string_view name_of(Sharding sharding) {
  switch (sharding) {
    case Sharding::table_wise:
      return "table_wise";
    case Sharding::row_wise:
      return "row_wise";
    case Sharding::column_wise:
      return "column_wise";
    case Sharding::replicated:
      return "replicated";
  }
  return "unknown";
}

void TablePlan::place(TablePlacement placement) {
  auto const found = std::ranges::find(tables, placement.table, &TablePlacement::table);
  require(found != tables.end(), "the plan has no table '{}'", placement.table);
  *found = std::move(placement);
}

void require_tables(std::vector<TableSpec> const& tables) {
  require(!tables.empty(), "{} tables; expected at least one", tables.size());
  std::set<std::string> names;
  for (auto const& table : tables) {
    require(!table.name.empty(), "table {} has an empty name", names.size());
    require(names.insert(table.name).second, "two tables have the name '{}'", table.name);
    require_spec(table);
  }
}

void require_plan(std::vector<TableSpec> const& tables, TablePlan const& plan, SentRows sent) {
  require(plan.ranks >= 1, "a plan for {} ranks; expected at least 1", plan.ranks);
  require(plan.tables.size() == tables.size(),
          "a plan of {} tables for {} tables",
          plan.tables.size(),
          tables.size());
  for (std::size_t i = 0; i < tables.size(); ++i) {
    require_placement(tables[i], plan.tables[i], plan.ranks, sent);
  }
}

}  // namespace msstream
