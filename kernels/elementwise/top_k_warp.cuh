// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/warp_reduce.cuh"
#include "elementwise/top_k.hpp"
#include "elementwise/top_key.hpp"

#include <cstdint>

/// Finds the greatest elements of a row with one warp, which holds the row in its registers. The
/// warp searches for a bound that at least k elements reach, but no more than it can sort, and then
/// sorts the elements that reach the bound.
namespace msstream::ops::kernels {

inline constexpr int kTopThreads = 256;
inline constexpr int kTopWarps = kTopThreads / 32;
/// The number of sampled elements of a row that are tried as bounds for its k greatest elements,
/// before a binary search over the bits of the bound.
inline constexpr int kTriedSamples = 4;

/// Sorts 32 * PerLane keys in descending order. Key i is in lane i / PerLane, at index i % PerLane
/// (Batcher, Sorting networks and their applications, 1968).
template <class Key, int PerLane>
__device__ void sort_in_warp(Key (&keys)[PerLane], int lane) {
#pragma unroll
  for (int size = 2; size <= 32 * PerLane; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
      if (stride >= PerLane) {
        int const distance = stride / PerLane;
        bool const descends = ((lane * PerLane) & size) == 0;
        bool const takes_greater = ((lane & distance) == 0) == descends;
#pragma unroll
        for (int k = 0; k < PerLane; ++k) {
          Key const other = __shfl_xor_sync(kAllLanes, keys[k], distance);
          keys[k] = takes_greater == (other > keys[k]) ? other : keys[k];
        }
      } else {
#pragma unroll
        for (int k = 0; k < PerLane; ++k) {
          int const other = k ^ stride;
          bool const descends = ((lane * PerLane + k) & size) == 0;
          if (k < other && (keys[k] < keys[other]) == descends) {
            Key const key = keys[k];
            keys[k] = keys[other];
            keys[other] = key;
          }
        }
      }
    }
  }
}

/// The elements of a row as integers that order like the elements (top_order()), in the registers
/// of a warp. Element k * 32 + lane is in that lane, at index k. Beyond the row the integers are 0,
/// which no element has.
template <int PerLane>
struct WarpRow {
  std::uint32_t orders[PerLane];
  int lane;

  __device__ WarpRow(float const* values, unsigned columns)
      : lane(static_cast<int>(threadIdx.x) % 32) {
    float held[PerLane];
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      held[k] = column(k) < columns ? __ldg(values + column(k)) : 0.0F;
    }
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      orders[k] = column(k) < columns ? top_order(held[k]) : 0;
    }
  }

  __device__ unsigned column(int k) const {
    return static_cast<unsigned>(k * 32 + lane);
  }

  __device__ std::uint32_t greatest_of_lane() const {
    std::uint32_t greatest = orders[0];
#pragma unroll
    for (int k = 1; k < PerLane; ++k) {
      greatest = max(greatest, orders[k]);
    }
    return greatest;
  }

  /// Returns how many of the calling lane's elements are greater than or equal to the bound.
  __device__ unsigned count_in_lane(std::uint32_t bound) const {
    unsigned count = 0;
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      count += orders[k] >= bound ? 1 : 0;
    }
    return count;
  }
  __device__ unsigned count(std::uint32_t bound) const {
    return warp_sum(count_in_lane(bound));
  }

  /// Keeps only the first `kept` of the elements that equal `order`, and sets the others of them to
  /// 0.
  __device__ void keep_first(unsigned kept, std::uint32_t order) {
    auto const lower_lanes = (1U << lane) - 1;
    unsigned before = 0;
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      auto const equal = __ballot_sync(kAllLanes, orders[k] == order);
      if (orders[k] == order && before + __popc(equal & lower_lanes) >= kept) {
        orders[k] = 0;
      }
      before += __popc(equal);
    }
  }
};

/// A search for a bound that at least k elements of a row reach, and at most `most` elements if
/// such a bound exists. Narrows a range that contains the bound.
template <int PerLane>
struct BoundSearch {
  WarpRow<PerLane> const& row;
  unsigned k;
  unsigned most;
  std::uint32_t low = 1;  ///< `reaching` elements are at or above `low`, at least k
  std::uint32_t high;     ///< k elements reach no bound greater than `high`
  unsigned reaching;

  __device__ bool is_done() const { return reaching <= most || low >= high; }

  /// Narrows the range of bounds at `middle`. Returns whether at least k elements reach `middle`.
  __device__ bool narrow(std::uint32_t middle) {
    auto const count = row.count(middle);
    if (count >= k) {
      low = middle;
      reaching = count;
      return true;
    }
    high = middle - 1;
    return false;
  }

  /// Tries the k-th greatest of the lanes' greatest elements as a bound. Each of k lanes has an
  /// element that reaches the bound; if the elements are in random order, few others do. k must be
  /// at most 32, and the row must have at least k elements.
  __device__ void narrow_by_greatest_of_lanes(std::uint32_t greatest) {
    std::uint32_t sorted[1] = {greatest};
    sort_in_warp(sorted, row.lane);
    narrow(__shfl_sync(kAllLanes, sorted[0], static_cast<int>(k) - 1));
  }

  /// Sorts samples from all over the row, and tries those samples as bounds whose rank is about
  /// that of the row's k-th greatest element.
  __device__ void narrow_by_samples(std::uint32_t sample, unsigned columns) {
    std::uint32_t sorted[1] = {sample};
    sort_in_warp(sorted, row.lane);
    int const first = static_cast<int>(k * 32 / columns);
    int step = 0;
    for (int at = min(first, 31); at >= 0 && at < 32 && abs(at - first) < kTriedSamples;
         at += step) {
      auto const middle = __shfl_sync(kAllLanes, sorted[0], at);
      if (is_done() || middle <= low || middle > high) {
        return;
      }
      int const towards = narrow(middle) ? -1 : 1;
      if (step != 0 && towards != step) {
        return;
      }
      step = towards;
    }
  }

  __device__ void narrow_by_halves() {
    while (!is_done()) {
      auto const width = high - low;
      narrow(low + width / 2 + width % 2);
    }
  }
};

/// Writes the keys of at least the k greatest elements of a row one after the other to `keys`, and
/// returns the number of keys.
template <int PerLane, int SortedPerLane>
__device__ unsigned collect_greatest(float const* values,
                                     TopKArgs const& args,
                                     std::uint64_t* keys) {
  constexpr unsigned kMost = 32 * SortedPerLane;
  auto const columns = static_cast<unsigned>(args.columns);
  auto const wanted = static_cast<unsigned>(args.k);
  WarpRow<PerLane> row(values, columns);
  std::uint32_t bound = 1;
  if constexpr (PerLane > SortedPerLane) {
    auto const greatest = row.greatest_of_lane();
    BoundSearch<PerLane> search{
        .row = row, .k = wanted, .most = kMost, .high = warp_max(greatest), .reaching = columns};
    if constexpr (SortedPerLane == 1) {
      search.narrow_by_greatest_of_lanes(greatest);
    } else {
      auto const column = static_cast<unsigned>(row.lane) * columns / 32;
      search.narrow_by_samples(top_order(__ldg(values + column)), columns);
    }
    search.narrow_by_halves();
    bound = search.low;
    if (search.reaching > kMost) {
      auto const above = bound == 0xFFFFFFFFU ? 0 : row.count(bound + 1);
      row.keep_first(wanted - above, bound);
    }
  }
  auto const mine = row.count_in_lane(bound);
  auto end = mine;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    auto const before = __shfl_up_sync(kAllLanes, end, static_cast<unsigned>(distance));
    end += row.lane >= distance ? before : 0;
  }
  auto* next = keys + (end - mine);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    if (row.orders[k] >= bound) {
      *next++ = key_of_order(row.orders[k], row.column(k));
    }
  }
  return __shfl_sync(kAllLanes, end, 31);
}

/// Finds the top k of each row with one warp. A row has at most 32 * PerLane columns, and k is at
/// most 32 * SortedPerLane.
template <int PerLane, int SortedPerLane>
__global__ void __launch_bounds__(kTopThreads) top_k_by_warp_kernel(TopKArgs args) {
  constexpr unsigned kMost = 32 * SortedPerLane;
  __shared__ std::uint64_t keys_of_warps[kTopWarps][kMost];
  int const lane = static_cast<int>(threadIdx.x) % 32;
  auto const row = grid_thread() / 32;
  if (row >= args.rows) {
    return;
  }
  auto* const keys = keys_of_warps[threadIdx.x / 32];
  auto const* const values = args.values + row * args.columns;
  auto const count = collect_greatest<PerLane, SortedPerLane>(values, args, keys);
  __syncwarp();
  std::uint64_t sorted[SortedPerLane];
#pragma unroll
  for (int k = 0; k < SortedPerLane; ++k) {
    auto const i = static_cast<unsigned>(k * 32 + lane);
    sorted[k] = i < count ? keys[i] : 0;
  }
  sort_in_warp(sorted, lane);
  __syncwarp();
#pragma unroll
  for (int k = 0; k < SortedPerLane; ++k) {
    keys[lane * SortedPerLane + k] = sorted[k];
  }
  __syncwarp();
#pragma unroll
  for (int k = 0; k < SortedPerLane; ++k) {
    if (int const j = k * 32 + lane; j < args.k) {
      auto const order = order_of(keys[j]);
      auto const column = column_of(keys[j]);
      args.top[row * args.k + j] = tells_value(order) ? value_of_order(order) : values[column];
      args.indices[row * args.k + j] = column;
    }
  }
}

}  // namespace msstream::ops::kernels
