// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"

#include <msstream/ops/kernels/embedding_tables.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Bags of each table that one round of tiles covers: what a warp of one-lane rows serves.
inline constexpr std::int64_t kChunkBags = 32;
/// Bags of hotness 1 that a group of lanes has in flight, as a power of two.
inline constexpr int kLog2BagsInFlight = 2;

/// The bags of a tile as a power of two: one a group of lanes, or of gathered ones several, but not
/// more than a warp can load ids for at once.
[[nodiscard]] constexpr int log2_bags_of_tile(TableDescriptor const& table, bool gathers) {
  int const lanes = table.log2_lanes;
  return 5 - lanes + (!gathers ? 0 : lanes < kLog2BagsInFlight ? lanes : kLog2BagsInFlight);
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

/// The offsets of the bags of all tables, of which there are args.offset_bags; where there are any.
template <class Id>
[[nodiscard]] constexpr BagOffsets<Id> offsets_of(TablesLookupArgs const& args) {
  return {static_cast<Id const*>(args.offsets), args.offset_bags, args.capacity};
}

/// Where an existing bag of a table has its ids.
template <class Id>
[[nodiscard]] constexpr PlaceRange places_of(TablesLookupArgs const& args,
                                             TableDescriptor const& table,
                                             std::int64_t number,
                                             std::int64_t bag) {
  if (args.offsets != nullptr) {
    return offsets_of<Id>(args).places_of(number * args.batch + bag);
  }
  auto const begin = args.batch * table.first_hotness + bag * table.hotness;
  return {begin, begin + table.hotness};
}

/// Whether an element takes the place of the largest so far; NaN is larger than all.
[[nodiscard]] constexpr bool is_larger(float element, float largest) {
  return element > largest || (element != element && largest == largest);
}

}  // namespace msstream::ops::kernels
