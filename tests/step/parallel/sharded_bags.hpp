// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {

/// The ids of bags, by table and sample.
using BagLists = std::vector<std::vector<std::vector<std::int64_t>>>;

/// The rows that are looked up before the update of the step before.
enum class RowsAhead : std::uint8_t { none, untouched, stale };

/// Returns bags for the next step with the rows that are looked up ahead of it.
template <Runtime R>
[[nodiscard]] ShardedIds<R> with_rows_ahead(ShardedTables<R> const& tables,
                                            RowsAhead rows,
                                            ShardedIds<R> const& next,
                                            ShardedIds<R> const& now) {
  return rows == RowsAhead::untouched ? tables.prefetch_rows(next, now)
         : rows == RowsAhead::stale   ? tables.prefetch_stale_rows(next)
                                      : next;
}

/// Returns random bags of every table, some of them empty, with ids of few rows, so that ranks have
/// some in common, and some ids that are out of range. With `is_fixed`, each bag has the table's
/// hotness, otherwise at most twice of it.
[[nodiscard]] inline BagLists random_bags(std::vector<TableSpec> const& tables,
                                          std::int64_t samples,
                                          bool is_fixed,
                                          std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  BagLists all;
  for (auto const& table : tables) {
    auto& bags = all.emplace_back(static_cast<std::size_t>(samples));
    std::int64_t left = table.hotness * samples;
    for (auto& bag : bags) {
      auto const most = std::min(2 * table.hotness, left);
      auto const length =
          is_fixed ? table.hotness
                   : static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(most + 1));
      left -= is_fixed ? 0 : length;
      for (std::int64_t i = 0; i < length; ++i) {
        auto const choice = static_cast<std::int64_t>(engine() % 12);
        auto const id =
            static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(table.rows));
        bag.push_back(choice == 0 ? -1 : choice == 1 ? table.rows + 2 : id);
      }
    }
  }
  return all;
}

/// Bags of a part of the samples in memory of their own, whose ids can be replaced.
template <Runtime R>
class BagsOnDevice {
 public:
  BagsOnDevice(Device<R> const& device,
               std::vector<TableSpec> const& tables,
               std::int64_t samples,
               BatchPart const& part,
               bool is_fixed)
      : device_(device),
        part_(part),
        is_fixed_(is_fixed),
        ids_(device, {capacity_of(tables, is_fixed ? part.rows() : samples)}),
        offsets_(device, {std::ssize(tables) * part.rows() + 1}) {}

  void put(BagLists const& lists) {
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> offsets{0};
    for (auto const& table : lists) {
      for (auto sample = part_.begin; sample < part_.end; ++sample) {
        auto const& bag = table[static_cast<std::size_t>(sample)];
        ids.insert(ids.end(), bag.begin(), bag.end());
        offsets.push_back(static_cast<std::int64_t>(ids.size()));
      }
    }
    ids.resize(static_cast<std::size_t>(ids_.count()), -7);
    copy(ids_, to_device(device_, ids, {ids_.count()}));
    copy(offsets_, to_device(device_, offsets, {offsets_.count()}));
  }
  [[nodiscard]] ops::TableBags<R> bags() const {
    ops::TableBags<R> all{.ids = ids_, .batch = part_.rows()};
    if (!is_fixed_) {
      all.offsets = offsets_;
    }
    return all;
  }

 private:
  [[nodiscard]] static std::int64_t capacity_of(std::vector<TableSpec> const& tables,
                                                std::int64_t samples) {
    std::int64_t hotness = 0;
    for (auto const& table : tables) {
      hotness += table.hotness;
    }
    return hotness * samples;
  }

  Device<R> device_;
  BatchPart part_;
  bool is_fixed_;
  Tensor<std::int64_t, R> ids_;
  Tensor<std::int64_t, R> offsets_;
};

/// Returns the samples of each rank: uneven parts, and none for rank 1 of several.
[[nodiscard]] inline std::vector<BatchPart> uneven_parts(std::int64_t samples, int ranks) {
  std::vector<BatchPart> parts{{0, samples}};
  if (ranks > 1) {
    auto const others = batch_parts(samples, ranks == 2 ? 1 : ranks - 1);
    parts = {others[0], {others[0].end, others[0].end}};
    parts.insert(parts.end(), others.begin() + 1, others.end());
  }
  return parts;
}

/// Returns a plan with the sharding of each table, on all ranks where it takes several.
[[nodiscard]] inline TablePlan plan_of(std::vector<TableSpec> const& tables,
                                       std::vector<Sharding> const& shardings,
                                       int ranks) {
  TablePlan plan{.ranks = ranks};
  for (std::size_t t = 0; t < tables.size(); ++t) {
    auto const sharding = shardings[t % shardings.size()];
    TablePlacement at{tables[t].name, sharding, {}};
    auto const most = sharding == Sharding::table_wise    ? std::int64_t{1}
                      : sharding == Sharding::row_wise    ? tables[t].rows
                      : sharding == Sharding::column_wise ? tables[t].width
                                                          : 0;
    for (int i = 0; i < std::min<std::int64_t>(ranks, most); ++i) {
      // Begins with another rank for each table.
      at.ranks.push_back((i + static_cast<int>(t)) % ranks);
    }
    plan.tables.push_back(std::move(at));
  }
  return plan;
}

}  // namespace msstream::testing
