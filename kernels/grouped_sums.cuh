// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"
#include "cuda_check.cuh"
#include "row_vector.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

// Sums of rows that are grouped by rank, the same bits for the same arguments. Sorted places are
// cut into parts of equal length, a group of lanes each:
//
//   ranks  0 0 0 1 | 1 1 1 1 | 1 2 3 3        part 0 stores row 0, part 2 rows 2 and 3
//   part      0    |    1    |    2           row 1: tails of 0 and 1 + head of 2
//
// A part stores the rows whose places it has all. What it has of a row that goes on behind it is
// its tail, what it has of a row that began before it and ends in it its head; a second launch adds
// them where a row ends.

inline constexpr int kGroupedThreads = 256;
inline constexpr int kGroupedWarps = kGroupedThreads / 32;

/// The places to add, sorted by rank; `rows` and `ranks` are 16-byte aligned.
struct GroupedPlaces {
  std::int32_t const* ranks;   ///< [capacity]: which sum a place adds to; ascending, then -1
  std::int32_t const* rows;    ///< [capacity]: the row to add
  float const* factors;        ///< [capacity]: what to multiply it with; or null
  std::int32_t const* starts;  ///< where each rank begins
  std::int64_t capacity;
};

/// Equal parts of the places, so many that they fill a large GPU; depends on the capacity alone.
struct PartsOfPlaces {
  std::int64_t places;
  std::int64_t parts;

  explicit PartsOfPlaces(std::int64_t capacity)
      : places(std::clamp<std::int64_t>(ceil_div(capacity, kParts * kStep) * kStep, 16, 256)),
        parts(ceil_div(capacity, places)) {}

 private:
  static constexpr std::int64_t kParts = 16'384;
  static constexpr std::int64_t kStep = 16;
};

/// Tails and heads of all parts.
inline std::size_t grouped_sums_workspace_bytes(std::int64_t capacity, std::int64_t width) {
  return 2 * static_cast<std::size_t>(PartsOfPlaces(capacity).parts) *
         static_cast<std::size_t>(width) * sizeof(float);
}

template <int Count>
__device__ void store_streaming(float* to, Columns<Count> const& columns) {
  if constexpr (Count % 4 == 0) {
#pragma unroll
    for (int c = 0; c < Count; c += 4) {
      __stcs(reinterpret_cast<float4*>(to + c),
             make_float4(columns.at[c], columns.at[c + 1], columns.at[c + 2], columns.at[c + 3]));
    }
  } else {
    store_columns(to, columns);
  }
}

/// `InFlight` neighbouring numbers from a 16-byte aligned place; -1 from `end` on.
template <int InFlight>
__device__ void load_numbers(std::int32_t const* from,
                             std::int64_t first,
                             std::int64_t end,
                             int (&numbers)[InFlight]) {
  static_assert(InFlight % 4 == 0);
  if (first + InFlight <= end) {
#pragma unroll
    for (int k = 0; k < InFlight; k += 4) {
      auto const four = __ldg(reinterpret_cast<int4 const*>(from + first + k));
      numbers[k] = four.x;
      numbers[k + 1] = four.y;
      numbers[k + 2] = four.z;
      numbers[k + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      numbers[k] = first + k < end ? __ldg(from + first + k) : -1;
    }
  }
}

/// What a part knows of its borders.
struct PartOfPlaces {
  std::int64_t begin;
  std::int64_t end;
  bool has_head;  ///< its first row began before it
  bool has_tail;  ///< its last row goes on behind it

  __device__ PartOfPlaces(GroupedPlaces const& places,
                          PartsOfPlaces const& parts,
                          std::int64_t part)
      : begin(min(part * parts.places, places.capacity)),
        end(min(begin + parts.places, places.capacity)),
        has_head(false),
        has_tail(false) {
    if (begin < end) {
      auto const goes_on = [&](std::int64_t border) {
        return places.ranks[border] >= 0 && places.ranks[border - 1] == places.ranks[border];
      };
      has_head = begin > 0 && goes_on(begin);
      has_tail = end < places.capacity && goes_on(end);
    }
  }
};

/// A group of lanes a part.
template <int Count>
__global__ void __launch_bounds__(kGroupedThreads) grouped_parts_kernel(GroupedPlaces places,
                                                                        float const* source,
                                                                        RowLanes shape,
                                                                        PartsOfPlaces parts,
                                                                        float* sums,
                                                                        float* tails,
                                                                        float* heads) {
  constexpr int kInFlight = 8;
  auto const part = grid_thread() >> shape.log2_lanes;
  PartOfPlaces const borders(places, parts, part);
  if (borders.begin >= borders.end) {
    return;
  }
  auto const first_rank = __ldg(places.ranks + borders.begin);
  if (first_rank < 0) {
    return;
  }
  for (std::int64_t column = shape.lane() * Count; column < shape.width;
       column += shape.lanes() * Count) {
    int current = first_rank;
    bool is_head = borders.has_head;
    Columns<Count> sum;
    auto const store = [&] {
      auto* const row = is_head ? heads + part * shape.width : sums + current * shape.width;
      store_streaming(row + column, sum);
    };
    for (auto first = borders.begin; first < borders.end; first += kInFlight) {
      int ranks[kInFlight];
      int rows[kInFlight];
      Columns<Count> loaded[kInFlight];
      load_numbers(places.ranks, first, borders.end, ranks);
      load_numbers(places.rows, first, borders.end, rows);
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (ranks[k] >= 0) {
          loaded[k] = load_columns<Count>(source + rows[k] * shape.width + column);
        }
      }
      if (places.factors != nullptr) {
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          if (ranks[k] >= 0) {
            loaded[k].multiply(__ldg(places.factors + first + k));
          }
        }
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (ranks[k] >= 0) {
          if (ranks[k] != current) {
            store();
            current = ranks[k];
            is_head = false;
            sum = Columns<Count>{};
          }
          sum.add(loaded[k]);
        }
      }
    }
    if (borders.has_tail) {
      store_columns(tails + part * shape.width + column, sum);
    } else {
      store();
    }
  }
}

/// The sum of load(i) over a range, by one warp: the groups of lanes take turns, then a tree over
/// the groups. All lanes of a group get the result.
template <int Count, class Load>
__device__ Columns<Count> sum_of_warp(PlaceRange range, RowLanes const& shape, Load const& load) {
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

/// A range of things to add that one warp of a block brings, for one sum.
struct WarpRange {
  PlaceRange range;
  std::int64_t rank;  ///< the sum it is for
  bool exists;
};

/// Each warp of the block brings a range; a long one is added by the whole block. To be called by
/// all threads. load(i, is_last, column) gives Count columns.
template <int Count, class Load>
__device__ void sum_ranges(WarpRange const& mine,
                           RowLanes const& shape,
                           float* sums,
                           Load const& load) {
  constexpr std::int64_t kLong = 64;
  __shared__ WarpRange ranges[kGroupedWarps];
  __shared__ float partials[kGroupedWarps][32 * Count];
  int const warp = static_cast<int>(threadIdx.x) / 32;
  int const lane_of_warp = static_cast<int>(threadIdx.x) % 32;
  bool const stores = lane_of_warp < shape.lanes();
  bool const is_long = mine.exists && mine.range.end - mine.range.begin > kLong;
  if (lane_of_warp == 0) {
    ranges[warp] = mine;
    ranges[warp].exists = is_long;
  }
  std::int64_t const step = shape.lanes() * Count;
  auto const sum_of = [&](PlaceRange range, std::int64_t last, std::int64_t column) {
    return sum_of_warp<Count>(range, shape, [&](std::int64_t i) {
      return column < shape.width ? load(i, i == last, column) : Columns<Count>{};
    });
  };
  if (mine.exists && !is_long) {
    for (std::int64_t base = 0; base < shape.width; base += step) {
      auto const column = base + shape.lane() * Count;
      auto const sum = sum_of(mine.range, mine.range.end - 1, column);
      if (stores && column < shape.width) {
        store_columns(sums + mine.rank * shape.width + column, sum);
      }
    }
  }
  __syncthreads();
  for (int owner = 0; owner < kGroupedWarps; ++owner) {
    auto const shared = ranges[owner];
    if (!shared.exists) {
      continue;
    }
    auto const share = ceil_div<std::int64_t>(shared.range.end - shared.range.begin, kGroupedWarps);
    PlaceRange const part{min(shared.range.begin + warp * share, shared.range.end),
                          min(shared.range.begin + (warp + 1) * share, shared.range.end)};
    for (std::int64_t base = 0; base < shape.width; base += step) {
      auto const column = base + shape.lane() * Count;
      auto const partial = sum_of(part, shared.range.end - 1, column);
      if (stores) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          partials[warp][lane_of_warp * Count + c] = partial.at[c];
        }
      }
      __syncthreads();
      if (warp == owner && stores && column < shape.width) {
        Columns<Count> sum;
        for (int other = 0; other < kGroupedWarps; ++other) {
#pragma unroll
          for (int c = 0; c < Count; ++c) {
            sum.at[c] = __fadd_rn(sum.at[c], partials[other][lane_of_warp * Count + c]);
          }
        }
        store_columns(sums + shared.rank * shape.width + column, sum);
      }
      __syncthreads();
    }
  }
}

/// A warp a part: where a row ends that began in an earlier part, the tails since then and this
/// part's head are added. No other warp writes that row.
template <int Count>
__global__ void __launch_bounds__(kGroupedThreads) grouped_borders_kernel(GroupedPlaces places,
                                                                          RowLanes shape,
                                                                          PartsOfPlaces parts,
                                                                          float* sums,
                                                                          float const* tails,
                                                                          float const* heads) {
  auto const part = std::int64_t{blockIdx.x} * kGroupedWarps + threadIdx.x / 32;
  PartOfPlaces const borders(places, parts, part);
  WarpRange mine{{0, 0}, 0, false};
  if (borders.has_head) {
    mine.rank = places.ranks[borders.begin];
    mine.exists = !borders.has_tail || places.ranks[borders.end] != mine.rank;
    mine.range = {places.starts[mine.rank] / parts.places, part + 1};
  }
  sum_ranges<Count>(mine, shape, sums, [&](std::int64_t i, bool is_last, std::int64_t column) {
    return load_columns<Count>((is_last ? heads : tails) + i * shape.width + column);
  });
}

/// sums[rank, :] = the places of each rank, added. `workspace`: grouped_sums_workspace_bytes().
template <int Count>
void launch_grouped_sums(CudaStream stream,
                         GroupedPlaces const& places,
                         float const* source,
                         std::int64_t width,
                         float* sums,
                         void* workspace) {
  RowLanes const shape(width, Count);
  PartsOfPlaces const parts(places.capacity);
  auto* const tails = static_cast<float*>(workspace);
  auto* const heads = tails + parts.parts * width;
  grouped_parts_kernel<Count>
      <<<grid_for(parts.parts, kGroupedThreads / shape.lanes()), kGroupedThreads, 0, stream>>>(
          places, source, shape, parts, sums, tails, heads);
  check_launch("grouped sums, parts");
  grouped_borders_kernel<Count>
      <<<grid_for(parts.parts, kGroupedWarps), kGroupedThreads, 0, stream>>>(
          places, shape, parts, sums, tails, heads);
  check_launch("grouped sums, borders");
}

}  // namespace msstream::ops::kernels
