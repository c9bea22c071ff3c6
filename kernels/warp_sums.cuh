// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"
#include "cuda_check.cuh"
#include "row_vector.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

inline constexpr int kSumWarps = 8;
inline constexpr int kSumThreads = kSumWarps * 32;

__device__ inline int warp_of_block() {
  return static_cast<int>(threadIdx.x) / 32;
}

/// The sum of load(i) over a range, by one warp: the groups of lanes take turns, then a tree over
/// the groups. All lanes of a group get the result.
template <int Count, class Load>
__device__ Columns<Count> warp_sum(PlaceRange range, RowLanes const& shape, Load const& load) {
  constexpr int kInFlight = 4;
  int const groups = 32 >> shape.log2_lanes;
  int const group = (static_cast<int>(threadIdx.x) % 32) >> shape.log2_lanes;
  Columns<Count> sum;
  for (auto first = range.begin + group; first < range.end; first += groups * kInFlight) {
    Columns<Count> rows[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      auto const i = first + k * groups;
      rows[k] = i < range.end ? load(i) : Columns<Count>{};
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      sum.add(rows[k]);
    }
  }
  for (int distance = 16; distance >= shape.lanes(); distance /= 2) {
    Columns<Count> other;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      other.at[c] = __shfl_xor_sync(0xFFFFFFFFU, sum.at[c], distance);
    }
    sum.add(other);
  }
  return sum;
}

/// Each warp of a block of kSumThreads brings a run of rows; what is long is summed by the whole
/// block. To be called by all threads of the block.
///
/// load(i, column) gives Count columns of row i, whichever warp's run it is in; store(column, sum)
/// is called by the warp that brought the run, once a column, if it `has_run` (an empty one too).
template <int Count, class Load, class Store>
__device__ void sum_runs(
    PlaceRange run, bool has_run, RowLanes const& shape, Load const& load, Store const& store) {
  constexpr std::int64_t kLongRun = 256;
  __shared__ PlaceRange long_runs[kSumWarps];
  __shared__ float partials[kSumWarps][32 * Count];
  int const warp = warp_of_block();
  int const lane_of_warp = static_cast<int>(threadIdx.x) % 32;
  bool const stores = lane_of_warp < shape.lanes();
  bool const is_long = has_run && run.end - run.begin > kLongRun;
  if (lane_of_warp == 0) {
    long_runs[warp] = is_long ? run : PlaceRange{0, 0};
  }
  auto const sum_of = [&](PlaceRange range, std::int64_t column) {
    return warp_sum<Count>(range, shape, [&](std::int64_t i) {
      return column < shape.width ? load(i, column) : Columns<Count>{};
    });
  };
  std::int64_t const step = shape.lanes() * Count;
  if (has_run && !is_long) {
    for (std::int64_t base = 0; base < shape.width; base += step) {
      auto const column = base + shape.lane() * Count;
      auto const sum = sum_of(run, column);
      if (stores && column < shape.width) {
        store(column, sum);
      }
    }
  }
  __syncthreads();
  for (int owner = 0; owner < kSumWarps; ++owner) {
    auto const shared = long_runs[owner];
    if (shared.begin == shared.end) {
      continue;
    }
    auto const share = ceil_div<std::int64_t>(shared.end - shared.begin, kSumWarps);
    PlaceRange const mine{min(shared.begin + warp * share, shared.end),
                          min(shared.begin + (warp + 1) * share, shared.end)};
    for (std::int64_t base = 0; base < shape.width; base += step) {
      auto const column = base + shape.lane() * Count;
      auto const partial = sum_of(mine, column);
      if (stores) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          partials[warp][lane_of_warp * Count + c] = partial.at[c];
        }
      }
      __syncthreads();
      if (warp == owner && stores && column < shape.width) {
        Columns<Count> sum;
        for (int other = 0; other < kSumWarps; ++other) {
#pragma unroll
          for (int c = 0; c < Count; ++c) {
            sum.at[c] = __fadd_rn(sum.at[c], partials[other][lane_of_warp * Count + c]);
          }
        }
        store(column, sum);
      }
      __syncthreads();
    }
  }
}

}  // namespace msstream::ops::kernels
