// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/row_vector.cuh"
#include "common/whole_sums.cuh"
#include "ids/bag_offsets.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

inline constexpr int kGroupedThreads = 256;
inline constexpr int kGroupedWarps = kGroupedThreads / 32;

/// Returns among how many blocks along a grid's y dimension the columns of a row are divided: each
/// has as many as a group of lanes holds at once. Very wide rows are not divided.
inline unsigned column_shares(RowLanes const& shape) {
  constexpr std::int64_t kMost = 1024;
  auto const shares = ceil_div<std::int64_t>(shape.width, shape.lanes() * 4);
  return shares <= kMost ? static_cast<unsigned>(shares) : 1U;
}
/// Returns the columns of the calling block in a grid of column_shares() blocks along y.
__device__ inline PlaceRange columns_of_block(RowLanes const& shape) {
  if (gridDim.y == 1) {
    return {0, shape.width};
  }
  std::int64_t const columns = shape.lanes() * 4;
  return {blockIdx.y * columns, (blockIdx.y + 1) * columns};
}

/// A range of terms that one warp of a block adds to a single sum.
struct WarpRange {
  PlaceRange range;
  std::int64_t rank;   ///< number of the sum that the terms are added to
  std::int64_t start;  ///< for use by load_of(), as is `part`
  std::int64_t part;
  bool exists;
};

/// Returns the sum of load(i) over a range, computed by one warp: the groups of lanes take terms
/// alternately, then a tree adds the sums of the groups. All lanes of the warp receive the result.
template <class Load>
__device__ Columns<4> sum_of_range(PlaceRange range, RowLanes const& shape, Load const& load) {
  constexpr int kInFlight = 8;
  int const groups = 32 >> shape.log2_lanes;
  int const group = (static_cast<int>(threadIdx.x) % 32) >> shape.log2_lanes;
  Columns<4> sum;
  for (auto first = range.begin + group; first < range.end; first += groups * kInFlight) {
    Columns<4> rows[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      auto const i = first + k * groups;
      rows[k] = i < range.end ? load(i) : Columns<4>{};
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      sum.add(rows[k]);
    }
  }
  for (int distance = 16; distance >= shape.lanes(); distance /= 2) {
    Columns<4> other;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      other.at[c] = __shfl_xor_sync(0xFFFFFFFFU, sum.at[c], distance);
    }
    sum.add(other);
  }
  return sum;
}

/// Returns the sum of load(i) over a range of any length, computed by one warp in float32 parts and
/// a float64 total, as common/long_sum.hpp describes.
template <class Load>
__device__ Columns<4> sum_of_long_range(PlaceRange range, RowLanes const& shape, Load const& load) {
  std::int64_t const places_of_part = kTermsOfPart * (32 >> shape.log2_lanes);
  WholeSums<4> whole;
  Columns<4> sum;
  for (auto begin = range.begin; begin < range.end; begin += places_of_part) {
    whole.fold(sum, begin == range.begin);
    sum = sum_of_range({begin, min(begin + places_of_part, range.end)}, shape, load);
  }
  return range.begin < range.end ? whole.get(sum) : sum;
}

/// Sums one range of terms per warp; a long range is added by the whole block. All threads of the
/// block must call sum_ranges() together. load_of(range) returns a function of (i, column) that
/// returns four columns. All lanes of one group call finish(range, column, sum), once for every
/// four columns of a lane among `columns`, which are the same for all warps of the block and begin
/// at a multiple of the columns that a group of lanes holds.
template <class LoadOf, class Finish>
__device__ void sum_ranges(WarpRange const& mine,
                           PlaceRange const& columns,
                           RowLanes const& shape,
                           LoadOf const& load_of,
                           Finish const& finish) {
  constexpr std::int64_t kLong = 64;
  __shared__ WarpRange ranges[kGroupedWarps];
  __shared__ float4 partials[kGroupedWarps][32];
  int const warp = static_cast<int>(threadIdx.x) / 32;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  bool const is_first_group = lane < shape.lanes();
  bool const is_long = mine.exists && mine.range.end - mine.range.begin > kLong;
  if (lane == 0) {
    ranges[warp] = mine;
    ranges[warp].exists = is_long;
  }
  auto const load_columns_of = [&](WarpRange const& range, std::int64_t column) {
    return [load = load_of(range), column](std::int64_t i) { return load(i, column); };
  };
  std::int64_t const step = shape.lanes() * 4;
  if (mine.exists && !is_long) {
    for (auto base = columns.begin; base < columns.end; base += step) {
      auto const column = base + shape.lane() * 4;
      auto const sum = sum_of_range(mine.range, shape, load_columns_of(mine, column));
      if (is_first_group) {
        finish(mine, column, sum);
      }
    }
  }
  __syncthreads();
  for (int owner = 0; owner < kGroupedWarps; ++owner) {
    auto const range = ranges[owner];
    if (!range.exists) {
      continue;
    }
    auto const [begin, end] = range.range;
    auto const share = ceil_div<std::int64_t>(end - begin, kGroupedWarps);
    PlaceRange const part{min(begin + warp * share, end), min(begin + (warp + 1) * share, end)};
    for (auto base = columns.begin; base < columns.end; base += step) {
      auto const column = base + shape.lane() * 4;
      auto const partial = sum_of_long_range(part, shape, load_columns_of(range, column));
      if (is_first_group) {
        partials[warp][lane] =
            make_float4(partial.at[0], partial.at[1], partial.at[2], partial.at[3]);
      }
      __syncthreads();
      if (warp == owner && is_first_group) {
        Columns<4> sum;
        for (int other = 0; other < kGroupedWarps; ++other) {
          auto const four = partials[other][lane];
          sum.add({{four.x, four.y, four.z, four.w}});
        }
        finish(range, column, sum);
      }
      __syncthreads();
    }
  }
}

}  // namespace msstream::ops::kernels
