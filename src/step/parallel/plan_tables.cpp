// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/step/batch_parts.hpp>
#include <msstream/step/table_plan.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream {
namespace {

/// The fewest columns that a rank gets of a table that is divided by columns because of its size.
constexpr std::int64_t kFewestColumns = 32;

/// The cost of a table, or of a part of it, for the rank that has it.
struct Load {
  std::int64_t bytes = 0;      ///< with the state of the optimizer
  std::int64_t looked_up = 0;  ///< bytes, by one sample

  Load& operator+=(Load const& other) {
    bytes += other.bytes;
    looked_up += other.looked_up;
    return *this;
  }
};

/// Returns the product of numbers of at least 0, or a number beyond all memory if it is larger.
[[nodiscard]] std::int64_t product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kBeyondMemory = std::int64_t{1} << 56U;
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kBeyondMemory : std::min(result, kBeyondMemory);
}

[[nodiscard]] Load load_of(TableSpec const& table,
                           std::int64_t rows,
                           std::int64_t columns,
                           PlanTablesOptions const& options) {
  auto const element = static_cast<std::int64_t>(bytes_of(table.dtype));
  auto const of_row =
      product(columns, element + options.state_bytes_per_element) + options.state_bytes_per_row;
  return {product(rows, of_row), product(table.hotness, columns * element)};
}

[[nodiscard]] Load load_of(TableSpec const& table, PlanTablesOptions const& options) {
  return load_of(table, table.rows, table.width, options);
}

/// Calls visit(rank, load) for each part of a table.
template <class Visit>
void for_each_load(TableSpec const& table,
                   TablePlacement const& at,
                   int ranks,
                   PlanTablesOptions const& options,
                   Visit const& visit) {
  if (at.sharding == Sharding::table_wise) {
    visit(at.ranks[0], load_of(table, options));
  } else if (at.sharding == Sharding::replicated) {
    auto load = load_of(table, options);
    // The samples of each rank are looked up at home.
    load.looked_up /= ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      visit(rank, load);
    }
  } else {
    bool const by_rows = at.sharding == Sharding::row_wise;
    auto const parts =
        batch_parts(by_rows ? table.rows : table.width, static_cast<int>(at.ranks.size()));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      auto load = load_of(table,
                          by_rows ? parts[i].rows() : table.rows,
                          by_rows ? table.width : parts[i].rows(),
                          options);
      if (by_rows) {
        load.looked_up /= static_cast<std::int64_t>(parts.size());
      }
      visit(at.ranks[i], load);
    }
  }
}

[[nodiscard]] std::vector<Load> loads_of(std::vector<TableSpec> const& tables,
                                         TablePlan const& plan,
                                         PlanTablesOptions const& options) {
  std::vector<Load> loads(static_cast<std::size_t>(plan.ranks));
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for_each_load(tables[t], plan.tables[t], plan.ranks, options, [&](int rank, Load const& load) {
      loads[static_cast<std::size_t>(rank)] += load;
    });
  }
  return loads;
}

void require_within_limit(std::vector<TableSpec> const& tables,
                          TablePlan const& plan,
                          PlanTablesOptions const& options) {
  auto const loads = loads_of(tables, plan, options);
  for (int rank = 0; rank < plan.ranks; ++rank) {
    auto const bytes = loads[static_cast<std::size_t>(rank)].bytes;
    if (bytes <= options.most_bytes_per_rank) {
      continue;
    }
    std::size_t largest = 0;
    std::int64_t most = -1;
    for (std::size_t t = 0; t < tables.size(); ++t) {
      for_each_load(tables[t], plan.tables[t], plan.ranks, options, [&](int of, Load const& load) {
        if (of == rank && load.bytes > most) {
          most = load.bytes;
          largest = t;
        }
      });
    }
    detail::throw_invalid_argument(
        fmt::format("plan_tables: rank {} of {} has {} bytes of tables; expected at most {}, which "
                    "most_bytes_per_rank says; its largest part is that of '{}', {}, with {}",
                    rank,
                    plan.ranks,
                    bytes,
                    options.most_bytes_per_rank,
                    tables[largest].name,
                    name_of(plan.tables[largest].sharding),
                    most));
  }
}

/// Chooses the placements of the tables that are not fixed.
class Planner {
 public:
  Planner(std::vector<TableSpec> const& tables, int ranks, PlanTablesOptions const& options)
      : tables_(tables),
        options_(options),
        plan_{ranks, {}},
        loads_(static_cast<std::size_t>(ranks)) {
    for (auto const& table : tables) {
      auto const load = load_of(table, options);
      total_ += load;
      plan_.tables.push_back({table.name, Sharding::table_wise, {}});
    }
  }

  [[nodiscard]] TablePlan plan() {
    std::vector<bool> is_placed(tables_.size());
    for (auto const& at : options_.fixed) {
      auto const t = static_cast<std::size_t>(
          std::ranges::find(tables_, at.table, &TableSpec::name) - tables_.begin());
      place(t, at);
      is_placed[t] = true;
    }
    std::vector<std::size_t> rest;
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      if (is_placed[t]) {
        continue;
      }
      if (auto at = divided_or_replicated(tables_[t])) {
        place(t, *std::move(at));
      } else {
        rest.push_back(t);
      }
    }
    std::ranges::stable_sort(rest, [&](std::size_t a, std::size_t b) {
      return share_of(load_of(tables_[a], options_)) > share_of(load_of(tables_[b], options_));
    });
    for (auto const t : rest) {
      place(t, {tables_[t].name, Sharding::table_wise, {best_rank(load_of(tables_[t], options_))}});
    }
    return std::move(plan_);
  }

 private:
  /// Returns the larger one of a load's shares in the bytes and in the lookups of all tables.
  [[nodiscard]] double share_of(Load const& load) const {
    return std::max(static_cast<double>(load.bytes) / static_cast<double>(total_.bytes),
                    static_cast<double>(load.looked_up) / static_cast<double>(total_.looked_up));
  }
  [[nodiscard]] std::optional<TablePlacement> divided_or_replicated(TableSpec const& table) const {
    auto const load = load_of(table, options_);
    bool const is_max = table.pooling == ops::Pooling::max;
    if (plan_.ranks == 1) {
      return std::nullopt;
    }
    if (load.bytes <= options_.replicated_bytes && !is_max) {
      return TablePlacement{table.name, Sharding::replicated, {}};
    }
    if (share_of(load) * plan_.ranks <= 1 && load.bytes <= options_.most_bytes_per_rank) {
      return std::nullopt;
    }
    // Each part by columns would have its own state of every row, which is another update rule.
    // Tables that take the maximum can be divided in no other way.
    bool const has_state_of_rows = options_.state_bytes_per_row > 0;
    bool const by_columns =
        is_max || (!has_state_of_rows && table.width / plan_.ranks >= kFewestColumns);
    auto const parts = std::min<std::int64_t>(plan_.ranks, by_columns ? table.width : table.rows);
    std::vector<int> all(static_cast<std::size_t>(parts));
    std::iota(all.begin(), all.end(), 0);
    return TablePlacement{
        table.name, by_columns ? Sharding::column_wise : Sharding::row_wise, std::move(all)};
  }
  /// Returns the rank that has the smallest share with the load added, of equal ones the first.
  [[nodiscard]] int best_rank(Load const& load) const {
    int best = 0;
    double least = 0;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      auto with = loads_[static_cast<std::size_t>(rank)];
      with += load;
      // A rank whose memory would be too small is the last choice.
      auto const share = share_of(with) + (with.bytes > options_.most_bytes_per_rank ? 2.0 : 0.0);
      if (rank == 0 || share < least) {
        best = rank;
        least = share;
      }
    }
    return best;
  }
  void place(std::size_t t, TablePlacement at) {
    for_each_load(tables_[t], at, plan_.ranks, options_, [&](int rank, Load const& load) {
      loads_[static_cast<std::size_t>(rank)] += load;
    });
    plan_.tables[t] = std::move(at);
  }

  std::vector<TableSpec> const& tables_;
  PlanTablesOptions const& options_;
  TablePlan plan_;
  std::vector<Load> loads_;
  Load total_;
};

}  // namespace

TablePlan plan_tables(std::vector<TableSpec> const& tables,
                      int ranks,
                      PlanTablesOptions const& options) {
  require_tables(tables);
  require(ranks >= 1, "plan_tables: {} ranks; expected at least 1", ranks);
  require(options.state_bytes_per_element >= 0 && options.state_bytes_per_row >= 0,
          "plan_tables: a state of {} bytes an element and {} a row; expected at least 0 of each",
          options.state_bytes_per_element,
          options.state_bytes_per_row);
  for (auto const& at : options.fixed) {
    auto const table = std::ranges::find(tables, at.table, &TableSpec::name);
    require(table != tables.end(), "plan_tables: a fixed placement of '{}', no table", at.table);
    require(std::ranges::count(options.fixed, at.table, &TablePlacement::table) == 1,
            "plan_tables: table '{}' has two fixed placements",
            at.table);
    require_plan({*table}, {ranks, {at}}, options.sent);
  }
  auto plan = Planner(tables, ranks, options).plan();
  require_plan(tables, plan, options.sent);
  require_within_limit(tables, plan, options);
  return plan;
}

std::string describe_plan(std::vector<TableSpec> const& tables,
                          TablePlan const& plan,
                          PlanTablesOptions const& options) {
  require_plan(tables, plan, options.sent);
  std::size_t widest = 5;
  for (auto const& table : tables) {
    widest = std::max(widest, table.name.size());
  }
  auto text = fmt::format("{:<{}}  {:>12}  {:>6}  {:>8}  {:<11}  {:>16}  ranks\n",
                          "table",
                          widest,
                          "rows",
                          "width",
                          "hotness",
                          "sharding",
                          "bytes");
  for (std::size_t t = 0; t < tables.size(); ++t) {
    auto const& table = tables[t];
    auto const& at = plan.tables[t];
    text += fmt::format(
        "{:<{}}  {:>12}  {:>6}  {:>8}  {:<11}  {:>16}  {}\n",
        table.name,
        widest,
        table.rows,
        table.width,
        table.hotness,
        name_of(at.sharding),
        load_of(table, options).bytes,
        at.sharding == Sharding::replicated ? "all" : fmt::format("{}", fmt::join(at.ranks, " ")));
  }
  text += fmt::format("\n{:>4}  {:>16}  {:>20}\n", "rank", "bytes", "looked up a sample");
  auto const loads = loads_of(tables, plan, options);
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    text += fmt::format("{:>4}  {:>16}  {:>20}\n", rank, loads[rank].bytes, loads[rank].looked_up);
  }
  return text;
}

}  // namespace msstream
