// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"

#include <msstream/ops/kernels/embedding_tables.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::ops::kernels {

/// Bags of each table that one round of tiles covers: what a warp of one-lane rows serves.
inline constexpr std::int64_t kChunkBags = 32;
/// Bags of hotness 1 that a group of lanes has in flight, as a power of two.
inline constexpr int kLog2BagsInFlight = 2;

/// The bags of a tile as a power of two: one a group of lanes, or of gathered ones several, but not
/// more than a warp can load ids for at once.
[[nodiscard]] constexpr int log2_bags_of_tile(TableDescriptor const& table,
                                              bool gathers,
                                              int log2_in_flight = kLog2BagsInFlight) {
  int const lanes = table.log2_lanes;
  return 5 - lanes + (!gathers ? 0 : lanes < log2_in_flight ? lanes : log2_in_flight);
}

[[nodiscard]] constexpr bool divides(Pooling pooling) {
  return pooling == Pooling::mean || pooling == Pooling::sqrtn;
}

inline TablePlan plan_tables(std::vector<TableDescriptor> tables, int log2_in_flight) {
  TablePlan plan;
  plan.first_rows = {0};
  std::vector<std::int32_t> pooled;
  std::int32_t number = 0;
  for (auto& table : tables) {
    auto const widest = static_cast<std::int32_t>(16 / bytes_of(table.dtype));
    bool const is_aligned =
        table.width % widest == 0 && reinterpret_cast<std::uintptr_t>(table.table) % 16 == 0;
    table.columns_a_lane = static_cast<std::uint8_t>(is_aligned ? widest : 1);
    table.log2_lanes = 0;
    while (table.log2_lanes < 5 && (table.columns_a_lane << table.log2_lanes) < table.width) {
      ++table.log2_lanes;
    }
    table.first_hotness = plan.hotness;
    table.first_column = plan.width;
    table.first_tile[0] = static_cast<std::int32_t>(plan.table_of_tile.size());
    table.first_tile[1] = static_cast<std::int32_t>(pooled.size());
    auto const tiles = [&](bool gathers) {
      auto const log2_bags = log2_bags_of_tile(table, gathers, log2_in_flight);
      return static_cast<std::size_t>(kChunkBags >> log2_bags);
    };
    plan.table_of_tile.insert(plan.table_of_tile.end(), tiles(table.hotness == 1), number);
    pooled.insert(pooled.end(), tiles(false), number);
    plan.hotness += table.hotness;
    plan.width += table.width;
    plan.widest = std::max<std::int64_t>(plan.widest, table.width);
    plan.first_rows.push_back(plan.first_rows.back() + table.rows);
    plan.has_default_ids = plan.has_default_ids || table.default_id >= 0;
    plan.has_divisors = plan.has_divisors || divides(table.pooling);
    plan.gathers_all = plan.gathers_all && table.hotness == 1;
    plan.loads_floats = plan.loads_floats && table.dtype == DType::float32 && is_aligned;
    ++number;
  }
  plan.fixed_tiles = static_cast<std::int64_t>(plan.table_of_tile.size());
  plan.pooled_tiles = static_cast<std::int64_t>(pooled.size());
  plan.table_of_tile.insert(plan.table_of_tile.end(), pooled.begin(), pooled.end());
  plan.tables = std::move(tables);
  return plan;
}

/// Whether every bag is pooled: a gather knows neither lengths nor weights.
[[nodiscard]] constexpr bool pools_all(TablesLookupArgs const& args) {
  return args.offsets != nullptr || args.weights != nullptr;
}
[[nodiscard]] constexpr bool is_gathered(TablesLookupArgs const& args,
                                         TableDescriptor const& table) {
  return table.hotness == 1 && !pools_all(args);
}

[[nodiscard]] constexpr std::int64_t existing_bags(TablesLookupArgs const& args) {
  return args.batch_count != nullptr ? clamped(*args.batch_count, args.batch) : args.batch;
}

/// Where an existing bag of a table has its ids.
template <class Id>
[[nodiscard]] constexpr PlaceRange places_of(TablesLookupArgs const& args,
                                             TableDescriptor const& table,
                                             std::int64_t number,
                                             std::int64_t bag) {
  if (args.offsets != nullptr) {
    auto const* const offsets = static_cast<Id const*>(args.offsets) + number * args.batch + bag;
    return {clamped(offsets[0], args.capacity), clamped(offsets[1], args.capacity)};
  }
  auto const begin = args.batch * table.first_hotness + bag * table.hotness;
  return {begin, begin + table.hotness};
}

/// What the sum of a bag is divided by, or for sqrtn the square of that.
struct PoolingDivisor {
  std::int64_t valid = 0;
  float total = 0.0F;  ///< of the weights of valid ids, or of their squares

  [[nodiscard]] constexpr float get(bool is_weighted) const {
    return is_weighted ? total : static_cast<float>(valid);
  }
};

/// Whether an element takes the place of the largest so far; NaN is larger than all.
[[nodiscard]] constexpr bool is_larger(float element, float largest) {
  return element > largest || (element != element && largest == largest);
}

}  // namespace msstream::ops::kernels
