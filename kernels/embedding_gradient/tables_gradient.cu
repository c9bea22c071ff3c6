// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "embedding_gradient/tables_borders.cuh"
#include "embedding_gradient/tables_places.hpp"
#include "embedding_gradient/tables_stores.cuh"
#include "ids/bag_offsets.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {
namespace {

// Describes the positions of the ids of all bags (tell_places()), one thread per bag.
template <class Id, class Row>
__global__ void __launch_bounds__(kTableSumThreads, 4)
    tell_places_kernel(TablePlacesArgs const args, bool has_default_ids, std::int64_t all_bags) {
  auto const i = grid_thread();
  if (i < all_bags) {
    auto const number = static_cast<unsigned>(i) / static_cast<unsigned>(args.bags.batch);
    auto const bag = i - number * args.bags.batch;
    tell_places<Id, Row>(args, args.bags.tables[number], has_default_ids, number, bag);
  }
}

constexpr int kLanesOfPlaces = 8;  ///< threads that describe the positions of one bag

/// Returns whether bags are so long that several threads describe one. Weights in a divisor are
/// added one after the other, which one thread does.
[[nodiscard]] bool has_long_bags(TablePlacesArgs const& args, std::int64_t all_bags) {
  bool const adds_weights =
      args.factors != nullptr && args.bags.weights != nullptr && args.bags.plan->has_divisors;
  return !adds_weights && args.bags.capacity / all_bags >= kLanesOfPlaces / 2;
}

// Describes the positions as tell_places() does, with kLanesOfPlaces threads per bag: neighbouring
// lanes have neighbouring positions, and each compares the bag with other offsets.
template <class Id, class Row>
__global__ void __launch_bounds__(kTableSumThreads)
    tell_places_by_lanes_kernel(TablePlacesArgs const args,
                                bool has_default_ids,
                                std::int64_t all_bags) {
  auto const& bags = args.bags;
  int const lane = static_cast<int>(threadIdx.x) % kLanesOfPlaces;
  auto const i = grid_thread() / kLanesOfPlaces;
  bool const is_bag = i < all_bags;
  // A thread without a bag goes on, because lanes of its warp wait for it.
  auto const number = is_bag ? static_cast<unsigned>(i) / static_cast<unsigned>(bags.batch) : 0U;
  auto const bag = is_bag ? i - number * bags.batch : 0;
  auto const& table = bags.tables[number];
  bool const exists = is_bag && bag < existing_bags(bags);
  PlaceRange places{0, 0};
  if (bags.offsets != nullptr) {
    places =
        places_by_lanes(offsets_of<Id>(bags), i, exists, lane, kLanesOfPlaces, IdReport{}, false);
  } else if (exists) {
    places = places_of<Id>(bags, table, number, bag);
  }
  auto* const rows = static_cast<Row*>(args.rows);
  auto const first_row = args.first_rows[number];
  auto const table_rows = table.rows;
  auto const bag_of_all = static_cast<std::int32_t>(i);
  int valid = 0;
  for (auto place = places.begin + lane; place < places.end; place += kLanesOfPlaces) {
    auto const id = static_cast<std::int64_t>(static_cast<Id const*>(bags.ids)[place]);
    bool const is_valid = is_in_range(id, table_rows);
    rows[place] = static_cast<Row>(is_valid ? first_row + id : -1);
    args.bags_of_places[place] = bag_of_all;
    valid += is_valid ? 1 : 0;
  }
#pragma unroll
  for (int other = kLanesOfPlaces / 2; other > 0; other /= 2) {
    valid += __shfl_xor_sync(kAllLanes, valid, other);
  }
  PoolingDivisor divisor;
  divisor.valid = valid;
  if (args.factors != nullptr) {
    float const by = divides(table.pooling) ? divisor.get(table.pooling, false) : 1.0F;
    for (auto place = places.begin + lane; place < places.end; place += kLanesOfPlaces) {
      float const weight = bags.weights != nullptr ? bags.weights[place] : 1.0F;
      args.factors[place] = by == 0.0F ? 0.0F : factor_from(weight, by);
      if (by == 0.0F) {
        rows[place] = -1;  // with a factor of 0, an infinite gradient would give NaN
      }
    }
  }
  if (has_default_ids && is_bag && lane == 0) {
    auto const place = bags.capacity + bag_of_all;
    bool const has_row = exists && valid == 0 && is_in_range(table.default_id, table_rows);
    rows[place] = static_cast<Row>(has_row ? first_row + table.default_id : -1);
    args.bags_of_places[place] = bag_of_all;
    if (args.factors != nullptr) {
      args.factors[place] = 1.0F;
    }
  }
}

// Describes positions as tell_places() does, four neighbouring ones per thread, if each depends on
// nothing but its id: bags of fixed hotness that all exist, without factors and default ids.
template <class Id, class Row>
__global__ void __launch_bounds__(kTableSumThreads) tell_each_place_kernel(
    TablePlacesArgs const args, int tables, std::int64_t places, bool whole) {
  constexpr int kEach = 4;
  auto const first = grid_thread() * kEach;
  if (first >= places) {
    return;
  }
  auto const batch = args.bags.batch;
  auto const* const about = args.bags.tables;
  int number = 0;
  for (int behind = tables; behind - number > 1;) {
    int const middle = (number + behind) / 2;
    (about[middle].first_hotness * batch <= first ? number : behind) = middle;
  }
  auto of_table = static_cast<unsigned>(first - about[number].first_hotness * batch);
  auto hotness = static_cast<unsigned>(about[number].hotness);
  auto bag = of_table / hotness;
  auto of_bag = of_table - bag * hotness;
  Pack<Id, kEach> ids{};
  auto const* const from = static_cast<Id const*>(args.bags.ids) + first;
  auto const count = static_cast<int>(min(std::int64_t{kEach}, places - first));
  bool const is_whole = whole && count == kEach;
  if (is_whole) {
    ids = *reinterpret_cast<Pack<Id, kEach> const*>(from);
  } else {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      ids.lanes[k] = k < count ? from[k] : Id{};
    }
  }
  Pack<Row, kEach> rows{};
  Pack<std::int32_t, kEach> bags{};
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (k < count) {
      while (bag >= batch || hotness == 0) {  // the next table with positions
        ++number;
        hotness = static_cast<unsigned>(about[number].hotness);
        bag = 0;
      }
      auto const id = static_cast<std::int64_t>(ids.lanes[k]);
      rows.lanes[k] =
          static_cast<Row>(is_in_range(id, about[number].rows) ? args.first_rows[number] + id : -1);
      bags.lanes[k] = static_cast<std::int32_t>(number * batch + bag);
      if (++of_bag == hotness) {
        of_bag = 0;
        ++bag;
      }
    }
  }
  auto* const to_rows = static_cast<Row*>(args.rows) + first;
  auto* const to_bags = args.bags_of_places + first;
  if (is_whole) {
    *reinterpret_cast<Pack<Row, kEach>*>(to_rows) = rows;
    *reinterpret_cast<Pack<std::int32_t, kEach>*>(to_bags) = bags;
  } else {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (k < count) {
        to_rows[k] = rows.lanes[k];
        to_bags[k] = bags.lanes[k];
      }
    }
  }
}

/// Returns whether tell_each_place_kernel() can describe the positions.
[[nodiscard]] bool depends_on_ids_alone(TablePlacesArgs const& args) {
  return args.bags.offsets == nullptr && args.bags.batch_count == nullptr &&
         args.factors == nullptr && !args.bags.plan->has_default_ids &&
         args.bags.batch <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

void embedding_tables_places(CudaStream stream, TablePlacesArgs const& args) {
  auto const& plan = *args.bags.plan;
  if (has_unused_places(args.bags)) {
    auto const places = static_cast<std::size_t>(place_capacity(args.bags));
    check_cuda(cudaMemsetAsync(args.rows, 0xFF, places * bytes_of(args.row_dtype), stream),
               "cudaMemsetAsync");
  }
  auto const all_bags = static_cast<std::int64_t>(plan.tables.size()) * args.bags.batch;
  if (all_bags == 0) {
    return;
  }
  bool const by_lanes = has_long_bags(args, all_bags);
  auto const places = args.bags.batch * plan.hotness;
  with_place_types(args, [&]<class Id, class Row>(Id, Row) {
    if (depends_on_ids_alone(args)) {
      if (places > 0) {
        auto const fits = [](void const* data, std::size_t bytes) {
          return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
        };
        bool const whole = fits(args.bags.ids, 4 * sizeof(Id)) &&
                           fits(args.rows, 4 * sizeof(Row)) && fits(args.bags_of_places, 16);
        tell_each_place_kernel<Id, Row>
            <<<grid_for(places, 4 * kTableSumThreads), kTableSumThreads, 0, stream>>>(
                args, static_cast<int>(plan.tables.size()), places, whole);
        check_launch("embedding_tables_places");
      }
      return;
    }
    if (by_lanes) {
      tell_places_by_lanes_kernel<Id, Row>
          <<<grid_for(all_bags, kTableSumThreads / kLanesOfPlaces), kTableSumThreads, 0, stream>>>(
              args, plan.has_default_ids, all_bags);
      check_launch("embedding_tables_places");
      return;
    }
    tell_places_kernel<Id, Row>
        <<<grid_for(all_bags, kTableSumThreads), kTableSumThreads, 0, stream>>>(
            args, plan.has_default_ids, all_bags);
    check_launch("embedding_tables_places");
  });
}

std::size_t embedding_tables_gradient_workspace_bytes(CudaStream,
                                                      std::int64_t places,
                                                      std::int64_t widest) {
  return TableSumBorders(nullptr, TableSumParts(places, widest), widest).bytes;
}

void embedding_tables_gradient(CudaStream stream, TablesGradientArgs const& args) {
  require_real_type("embedding_tables_gradient: a gradient", args.gradient_dtype);
  auto const& plan = *args.plan;
  bool const is_whole = plan.widest % kTableSumCount == 0 && quads_fit(args.values) &&
                        std::ranges::all_of(plan.tables, [&](TableDescriptor const& table) {
                          return has_whole_gradient(args, table);
                        });
  if (is_whole) {
    launch_table_sums(stream, args, StoreTableSums<true>{args.values, plan.widest});
  } else {
    launch_table_sums(stream, args, StoreTableSums<false>{args.values, plan.widest});
  }
}

}  // namespace msstream::ops::kernels
