// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_check.cuh"
#include "top_key.hpp"

#include <msstream/ops/kernels/top_k.hpp>

#include <cstdint>

/// The greatest of a row by one warp, which holds all of it in registers: sorted where it is short,
/// else bit by bit it finds what the least of the greatest is ordered by, and sorts those alone.
namespace msstream::ops::kernels {

inline constexpr std::int64_t kSortedColumns = 128;  ///< rows that are sorted whole
inline constexpr std::int64_t kHeldColumns = 1024;   ///< of the longest row that a warp holds
inline constexpr int kTopThreads = 256;

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

/// Sorts 32 * PerLane keys, descending; key i is in lane i % 32, at i / 32 (Batcher, Sorting
/// networks and their applications, 1968).
template <int PerLane>
__device__ void sort_in_warp(std::uint64_t (&keys)[PerLane], int lane) {
#pragma unroll
  for (int size = 2; size <= 32 * PerLane; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
#pragma unroll
      for (int k = 0; k < PerLane; ++k) {
        int const i = k * 32 + lane;
        bool const descends = (i & size) == 0;
        if (stride >= 32) {
          int const other = k ^ (stride / 32);
          if (k < other && (keys[k] < keys[other]) == descends) {
            auto const key = keys[k];
            keys[k] = keys[other];
            keys[other] = key;
          }
        } else {
          auto const other = __shfl_xor_sync(kAllLanes, keys[k], stride);
          bool const takes_greater = ((lane & stride) == 0) == descends;
          keys[k] = takes_greater == (other > keys[k]) ? other : keys[k];
        }
      }
    }
  }
}

/// Sorts at most 32 * PerLane keys of a row and writes the first args.k; key_at(i) gives key i, 0
/// where there is none.
template <int PerLane, class KeyAt>
__device__ void write_sorted(TopKArgs const& args,
                             std::int64_t row,
                             int lane,
                             KeyAt const& key_at) {
  std::uint64_t keys[PerLane];
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    keys[k] = key_at(k * 32 + lane);
  }
  sort_in_warp(keys, lane);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    if (int const j = k * 32 + lane; j < args.k) {
      auto const column = column_of(keys[k]);
      args.top[row * args.k + j] = args.values[row * args.columns + column];
      args.indices[row * args.k + j] = column;
    }
  }
}

/// For rows of at most 32 * PerLane elements.
template <int PerLane>
__global__ void __launch_bounds__(kTopThreads) sorted_top_k_kernel(TopKArgs args) {
  int const lane = static_cast<int>(threadIdx.x) % 32;
  auto const row = grid_thread() / 32;
  if (row >= args.rows) {
    return;
  }
  write_sorted<PerLane>(args, row, lane, [&](int column) {
    return column < args.columns
               ? top_key(args.values[row * args.columns + column], static_cast<unsigned>(column))
               : 0;
  });
}

/// What each lane has of a row's orders: that of column k * 32 + lane at k, 0 where there is none.
template <int PerLane>
struct HeldRow {
  unsigned orders[PerLane];

  __device__ HeldRow(float const* row, std::int64_t columns, int lane) {
    float values[PerLane];
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      values[k] = k * 32 + lane < columns ? __ldg(row + k * 32 + lane) : 0.0F;
    }
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      orders[k] = k * 32 + lane < columns ? top_order(values[k]) : 0;
    }
  }

  /// How many of the row are at least `order`, which is not 0; all lanes get it.
  [[nodiscard]] __device__ unsigned count_from(unsigned order) const {
    unsigned count = 0;
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      count += orders[k] >= order ? 1U : 0U;
    }
    return __reduce_add_sync(kAllLanes, count);
  }

  /// An order that at least `wanted` of the row reach; if more do, it is the least of the greatest
  /// `wanted`.
  [[nodiscard]] __device__ unsigned threshold(unsigned wanted) const {
    unsigned found = 0;
#pragma unroll 1
    for (unsigned bit = 1U << 31U; bit != 0; bit >>= 1U) {
      auto const count = count_from(found | bit);
      if (count >= wanted) {
        found |= bit;
        if (count == wanted) {
          break;
        }
      }
    }
    return found;
  }

  /// Writes the keys of the `wanted` greatest, in any order; of equal ones the lower columns.
  __device__ void select(unsigned wanted, int lane, std::uint64_t* keys) const {
    unsigned const bound = threshold(wanted);
    unsigned equal_ones = wanted - (bound != ~0U ? count_from(bound + 1) : 0);
    unsigned const lower_lanes = (1U << lane) - 1;
    unsigned taken = 0;
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      bool const is_equal = orders[k] == bound;
      unsigned const equals = __ballot_sync(kAllLanes, is_equal);
      bool const takes = orders[k] > bound ||
                         (is_equal && __popc(equals & lower_lanes) < static_cast<int>(equal_ones));
      unsigned const takers = __ballot_sync(kAllLanes, takes);
      if (takes) {
        keys[taken + __popc(takers & lower_lanes)] =
            top_key_of(orders[k], static_cast<unsigned>(k * 32 + lane));
      }
      taken += __popc(takers);
      equal_ones -= min(equal_ones, static_cast<unsigned>(__popc(equals)));
    }
    __syncwarp();
  }
};

/// For rows of at most 32 * PerLane elements.
template <int PerLane>
__global__ void __launch_bounds__(kTopThreads) selected_top_k_kernel(TopKArgs args) {
  __shared__ std::uint64_t selected[kTopThreads / 32][kMostTop];
  int const lane = static_cast<int>(threadIdx.x) % 32;
  auto const row = grid_thread() / 32;
  if (row >= args.rows) {
    return;
  }
  auto* const keys = selected[threadIdx.x / 32];
  HeldRow<PerLane>(args.values + row * args.columns, args.columns, lane)
      .select(static_cast<unsigned>(args.k), lane, keys);
  auto const key_at = [&](int i) { return i < args.k ? keys[i] : 0; };
  if (args.k <= 32) {
    write_sorted<1>(args, row, lane, key_at);
  } else if (args.k <= 64) {
    write_sorted<2>(args, row, lane, key_at);
  } else if (args.k <= 128) {
    write_sorted<4>(args, row, lane, key_at);
  } else {
    write_sorted<8>(args, row, lane, key_at);
  }
}

}  // namespace msstream::ops::kernels
