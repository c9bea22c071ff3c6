// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "embedding/embedding_tables.hpp"
#include "ids/bag_offsets.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// The number of bags of each table that one chunk of tiles covers: as many as a warp processes at
/// once if each lane reads whole rows.
inline constexpr std::int64_t kChunkBags = 32;
/// The base-2 logarithm of the number of bags of hotness 1 that a group of lanes has in flight.
inline constexpr int kLog2BagsInFlight = 2;

/// Returns the base-2 logarithm of the number of bags in a tile: one bag per group of lanes or, if
/// bags are gathered, several, but not more than a warp can load ids for at once.
[[nodiscard]] constexpr int log2_bags_of_tile(TableDescriptor const& table, bool gathers) {
  int const lanes = table.log2_lanes;
  return 5 - lanes + (!gathers ? 0 : lanes < kLog2BagsInFlight ? lanes : kLog2BagsInFlight);
}

/// Returns whether bags of every table are pooled rather than gathered, because there are offsets
/// or weights, which a gather does not support.
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

/// Returns the offsets of the args.offset_bags bags of all tables. Only for lookups with offsets.
template <class Id>
[[nodiscard]] constexpr BagOffsets<Id> offsets_of(TablesLookupArgs const& args) {
  return {static_cast<Id const*>(args.offsets), args.offset_bags, args.capacity};
}

/// Returns the positions of the ids of an existing bag of a table.
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

/// Returns whether an element replaces the largest one so far in a maximum; NaN is larger than all
/// numbers.
[[nodiscard]] constexpr bool is_larger(float element, float largest) {
  return element > largest || (element != element && largest == largest);
}

}  // namespace msstream::ops::kernels
