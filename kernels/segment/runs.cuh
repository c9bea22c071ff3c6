// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/whole_sums.cuh"
#include "ids/bag_offsets.hpp"
#include "segment/columns.cuh"
#include "segment/tuning.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

__device__ inline int warp_of_block() {
  return static_cast<int>(threadIdx.x) / 32;
}

/// Returns the total of load(i) over a range, computed by a team of `team_lanes` lanes, a power of
/// two: the groups of lanes that hold a row take the elements alternately, then a tree combines the
/// groups. All groups of the team get the result. All lanes of a warp must call reduce_by_team()
/// together; each team has its own range.
template <class Combiner, int Count, class Load>
__device__ Columns<Count> reduce_by_team(PlaceRange range,
                                         RowLanes const& shape,
                                         int team_lanes,
                                         Load const& load) {
  constexpr int kInFlight = kRunRows;
  int const groups = team_lanes >> shape.log2_lanes;
  int const group = (static_cast<int>(threadIdx.x) & (team_lanes - 1)) >> shape.log2_lanes;
  auto total = nothing_of<Combiner, Count>();
  for (auto first = range.begin + group; first < range.end; first += groups * kInFlight) {
    Columns<Count> rows[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      auto const i = first + k * groups;
      rows[k] = i < range.end ? load(i) : nothing_of<Combiner, Count>();
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      combine<Combiner>(total, rows[k]);
    }
  }
  __syncwarp();
  for (int distance = team_lanes / 2; distance >= shape.lanes(); distance /= 2) {
    Columns<Count> other;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      other.at[c] = __shfl_xor_sync(0xFFFFFFFFU, total.at[c], distance);
    }
    combine<Combiner>(total, other);
  }
  return total;
}

template <class Combiner, int Count, class Load>
__device__ Columns<Count> reduce_by_warp(PlaceRange range,
                                         RowLanes const& shape,
                                         Load const& load) {
  return reduce_by_team<Combiner, Count>(range, shape, 32, load);
}

/// Returns the total of load(i) over a range of any length, computed by one warp. Sums are added in
/// float32 parts and a float64 total, as common/long_sum.hpp describes. All lanes get the result.
template <class Combiner, int Count, class Load>
__device__ Columns<Count> reduce_long_by_warp(PlaceRange range,
                                              RowLanes const& shape,
                                              Load const& load) {
  if constexpr (adds_up<Combiner>) {
    std::int64_t const places_of_part = kTermsOfPart * (32 >> shape.log2_lanes);
    WholeSums<Count> whole;
    auto total = nothing_of<Combiner, Count>();
    for (auto begin = range.begin; begin < range.end; begin += places_of_part) {
      whole.fold(total, begin == range.begin);
      PlaceRange const part{begin, min(begin + places_of_part, range.end)};
      total = reduce_by_warp<Combiner, Count>(part, shape, load);
    }
    return range.begin < range.end ? whole.get(total) : total;
  } else {
    return reduce_by_warp<Combiner, Count>(range, shape, load);
  }
}

/// Reduces one run of rows with all warps of a block of `Warps` warps. All threads of the block
/// must call reduce_by_block() with the same run and columns. load() is that of reduce_runs();
/// store(column, total) is called once per column, by warp `owner`.
template <class Combiner, int Warps, int Count, class Load, class Store>
__device__ void reduce_by_block(PlaceRange run,
                                PlaceRange columns,
                                int owner,
                                RowLanes const& shape,
                                Load const& load,
                                Store const& store) {
  __shared__ float partials[Warps][32 * Count];
  int const warp = warp_of_block();
  int const lane_of_warp = static_cast<int>(threadIdx.x) % 32;
  bool const stores = lane_of_warp < shape.lanes();
  auto const share = ceil_div<std::int64_t>(run.end - run.begin, Warps);
  PlaceRange const part{min(run.begin + warp * share, run.end),
                        min(run.begin + (warp + 1) * share, run.end)};
  std::int64_t const step = shape.lanes() * Count;
  for (auto base = columns.begin; base < columns.end; base += step) {
    auto const column = base + shape.lane() * Count;
    auto const partial = reduce_long_by_warp<Combiner, Count>(part, shape, [&](std::int64_t i) {
      return column < shape.width ? load(i, i == run.end - 1, column)
                                  : nothing_of<Combiner, Count>();
    });
    if (stores) {
#pragma unroll
      for (int c = 0; c < Count; ++c) {
        partials[warp][lane_of_warp * Count + c] = partial.at[c];
      }
    }
    __syncthreads();
    if (warp == owner && stores && column < shape.width) {
      auto total = nothing_of<Combiner, Count>();
      for (int other = 0; other < Warps; ++other) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          total.at[c] = Combiner::combine(total.at[c], partials[other][lane_of_warp * Count + c]);
        }
      }
      store(column, total);
    }
    __syncthreads();
  }
}

/// A run of rows that belongs to one warp of a block, and the columns that the block reduces, which
/// are the same for all warps.
struct WarpRun {
  PlaceRange rows;
  bool exists;
  PlaceRange columns;  ///< begins at a multiple of the columns that a group of lanes holds
};

/// Reduces one run of rows per warp of a block of `Warps` warps; a long run is reduced by the whole
/// block. All threads of the block must call reduce_runs().
///
/// load(i, is_last, column) returns Count columns of row i, for a row of any warp's run.
/// store(column, total) is called once per column by the warp to which the run belongs, if the run
/// exists, also for an empty run.
template <class Combiner, int Warps, int Count, class Load, class Store>
__device__ void reduce_runs(WarpRun const& mine,
                            RowLanes const& shape,
                            Load const& load,
                            Store const& store) {
  auto const run = mine.rows;
  __shared__ PlaceRange long_runs[Warps];
  int const warp = warp_of_block();
  int const lane_of_warp = static_cast<int>(threadIdx.x) % 32;
  bool const stores = lane_of_warp < shape.lanes();
  bool const is_long = mine.exists && run.end - run.begin > kLongRun;
  __syncthreads();  // all warps have read the results of an earlier call
  if (lane_of_warp == 0) {
    long_runs[warp] = is_long ? run : PlaceRange{0, 0};
  }
  std::int64_t const step = shape.lanes() * Count;
  if (mine.exists && !is_long) {
    for (auto base = mine.columns.begin; base < mine.columns.end; base += step) {
      auto const column = base + shape.lane() * Count;
      auto const total = reduce_by_warp<Combiner, Count>(run, shape, [&](std::int64_t i) {
        return column < shape.width ? load(i, i == run.end - 1, column)
                                    : nothing_of<Combiner, Count>();
      });
      if (stores && column < shape.width) {
        store(column, total);
      }
    }
  }
  __syncthreads();
  for (int owner = 0; owner < Warps; ++owner) {
    auto const shared = long_runs[owner];
    if (shared.begin == shared.end) {
      continue;
    }
    reduce_by_block<Combiner, Warps, Count>(shared, mine.columns, owner, shape, load, store);
  }
}

}  // namespace msstream::ops::kernels
