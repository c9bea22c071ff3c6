// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "embedding_gradient/places.cuh"
#include "ids/bag_offsets.cuh"

#include <cub/block/block_scan.cuh>

#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kItems = 4;
constexpr int kTile = kThreads * kItems;

/// Computes the pooling divisor of each bag, one warp per bag. Weights are added in the order of
/// the ids, as in the lookup.
template <class Id>
__global__ void __launch_bounds__(kThreads) bag_divisors_kernel(IdBags<Id> const bags,
                                                                std::int64_t rows,
                                                                Pooling pooling,
                                                                float* divisors) {
  auto const bag = grid_thread() / 32;
  if (bag >= bags.existing()) {
    return;
  }
  int const lane = static_cast<int>(threadIdx.x) % 32;
  auto const places =
      bags.offsets != nullptr
          ? places_by_lanes(bags.bag_offsets(), bag, true, lane, 32, IdReport{}, false)
          : bags.places_of(bag);
  PoolingDivisor divisor;
  for (auto first = places.begin; first < places.end; first += 32) {
    auto const place = first + lane;
    bool const is_valid = place < places.end && is_in_range(bags.ids[place], rows);
    unsigned const valid_lanes = __ballot_sync(kAllLanes, is_valid);
    divisor.valid += __popc(valid_lanes);
    if (bags.weights != nullptr) {
      float const weight = is_valid ? bags.weights[place] : 0.0F;
      for (unsigned rest = valid_lanes; rest != 0; rest &= rest - 1) {
        int const owner = __ffs(static_cast<int>(rest)) - 1;
        divisor.add_weight(pooling, __shfl_sync(kAllLanes, weight, owner));
      }
    }
  }
  if (lane == 0) {
    divisors[bag] = divisor.get(pooling, bags.weights != nullptr);
  }
}

/// Computes the pooling divisor of each bag of a few ids without weights, one thread per bag.
template <class Id>
__global__ void __launch_bounds__(kThreads) short_bag_divisors_kernel(IdBags<Id> const bags,
                                                                      std::int64_t rows,
                                                                      Pooling pooling,
                                                                      float* divisors) {
  auto const bag = grid_thread();
  if (bag >= bags.existing()) {
    return;
  }
  auto const places = bags.places_of(bag);
  PoolingDivisor divisor;
  for (auto place = places.begin; place < places.end; ++place) {
    divisor.valid += is_in_range(bags.ids[place], rows) ? 1 : 0;
  }
  divisors[bag] = divisor.get(pooling, false);
}

struct Larger {
  __device__ std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return max(a, b); }
};
using BagScan = cub::BlockScan<std::uint32_t, kThreads>;

/// Finds the bags of a tile of jagged positions that starts at `begin`; -1 for a position of no
/// bag. The first position of each bag and the first one after it are marked, and a scan spreads
/// the marks to the positions that follow. Thread t has the positions [kItems * t, kItems * (t +
/// 1)) of the tile. All threads of the block must call find_bags() together.
template <class Id>
__device__ void find_bags(IdBags<Id> const& bags,
                          std::int64_t begin,
                          std::int32_t (&found)[kItems]) {
  // The mark of bag b is 2 * b + 2 where it begins and 2 * b + 3 after its end, unless the next bag
  // begins there, whose mark is larger. 0 means no mark.
  __shared__ std::uint32_t marks[kTile];
  __shared__ typename BagScan::TempStorage scan;
  __shared__ std::int64_t ends[2];  ///< the first and last bag that may have positions in the tile
  int const thread = static_cast<int>(threadIdx.x);
  auto const offsets = bags.bag_offsets();
  for (int i = thread; i < kTile; i += kThreads) {
    marks[i] = 0;
  }
  if (thread < 64) {
    auto const place = thread < 32 ? begin : begin + kTile - 1;
    auto const bag = candidate_for(LaneGroup(32), offsets, place);
    if (thread % 32 == 0) {
      ends[thread / 32] = bag;
    }
  }
  __syncthreads();
  auto const last = min(ends[1], offsets.bags - 1);
  bool const looks = ends[0] > last || looks_good(offsets, ends[0], last, thread, kThreads);
  bool const good = __syncthreads_and(looks ? 1 : 0) != 0;
  auto const mark = [&](std::int64_t place, std::uint32_t as) {
    auto const at = max(place - begin, std::int64_t{0});
    if (at < kTile) {
      atomicMax(marks + at, as);
    }
  };
  for (auto bag = ends[0] + thread; bag <= last; bag += kThreads) {
    auto const places =
        good ? PlaceRange{offsets.at[bag], offsets.at[bag + 1]} : offsets.places_of(bag);
    if (places.begin < places.end) {
      auto const as = 2 * static_cast<std::uint32_t>(bag) + 2;
      mark(places.begin, as);
      mark(places.end, as + 1);
    }
  }
  __syncthreads();
  std::uint32_t latest[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    latest[k] = marks[thread * kItems + k];
  }
  BagScan(scan).InclusiveScan(latest, latest, Larger{});
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    bool const has_bag = latest[k] != 0 && latest[k] % 2 == 0;
    found[k] = has_bag ? static_cast<std::int32_t>(latest[k] / 2 - 1) : -1;
  }
}

/// Writes for each position its bag and, unless `factors` is null, the factor by which the gradient
/// of the bag's output row is multiplied.
template <class Id>
__global__ void __launch_bounds__(kThreads) list_places_kernel(IdBags<Id> const bags,
                                                               std::int64_t places,
                                                               KnownDivisor hotness,
                                                               bool is_pooled,
                                                               float const* divisors,
                                                               std::int32_t* place_bags,
                                                               float* factors) {
  auto const begin = std::int64_t{blockIdx.x} * kTile;
  auto const first = begin + threadIdx.x * kItems;
  auto const existing = bags.existing();
  std::int32_t found[kItems];
  if (bags.offsets != nullptr && is_pooled) {
    find_bags(bags, begin, found);
  } else {
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      found[k] = hotness.divide(static_cast<std::int32_t>(min(first + k, places)));
    }
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    auto const place = first + k;
    if (place >= places) {
      break;
    }
    bool const is_default = place >= bags.capacity;
    std::int64_t const bag = is_default ? place - bags.capacity : found[k];
    // Bags and factors are also written for positions beyond the existing bags, although nothing
    // reads them.
    bool const has_divisor = divisors != nullptr && !is_default && bag >= 0 && bag < existing;
    float const divisor = has_divisor ? divisors[bag] : 1.0F;
    place_bags[place] = divisor != 0.0F ? static_cast<std::int32_t>(bag) : -1;
    if (factors != nullptr) {
      factors[place] = factor_from(bags.weight(place), divisor);
    }
  }
}

}  // namespace

PlaceSource make_place_source(CudaStream stream,
                              RowGradientArgs const& args,
                              PlaceLists const& lists) {
  auto const& view = args.bags;
  auto const places = place_capacity(view);
  bool const is_pooled = args.pooling != Pooling::none;
  KnownDivisor const hotness(is_pooled ? view.hotness : 1);
  if (lists.bags != nullptr) {
    with_id_type("embedding_gradient", view, [&](auto const& bags) {
      constexpr std::int64_t kShort = 16;
      bool const are_short =
          view.offsets == nullptr && view.weights == nullptr && view.hotness <= kShort;
      if (lists.divisors != nullptr && view.bags > 0 && are_short) {
        short_bag_divisors_kernel<<<grid_for(view.bags, kThreads), kThreads, 0, stream>>>(
            bags, args.rows, args.pooling, lists.divisors);
        check_launch("embedding_gradient, divisors of short bags");
      } else if (lists.divisors != nullptr && view.bags > 0) {
        bag_divisors_kernel<<<grid_for(view.bags, kThreads / 32), kThreads, 0, stream>>>(
            bags, args.rows, args.pooling, lists.divisors);
        check_launch("embedding_gradient, divisors");
      }
      list_places_kernel<<<grid_for(places, kTile), kThreads, 0, stream>>>(
          bags, places, hotness, is_pooled, lists.divisors, lists.bags, lists.factors);
      check_launch("embedding_gradient, places");
    });
  }
  return {lists.bags, lists.factors, static_cast<std::int32_t>(view.capacity), hotness};
}

}  // namespace msstream::ops::kernels
