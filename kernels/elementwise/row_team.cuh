// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "elementwise/reduce_math.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

/// The threads that share a row, whose columns are in their registers
/// (elementwise/row_columns.cuh): lanes of a warp, or a whole block. Both kinds of team have the
/// same members.
namespace msstream::ops::kernels {

/// Lanes of a warp that share a row; a block has several such teams. All lanes of the warp call
/// each function together.
struct LaneTeam {
  static constexpr bool kIsBlock = false;
  static constexpr int kMostThreads = kBlockThreads;

  int lanes;  ///< threads per team, a power of two
  int lane;
  int team;   ///< number of the team in its block
  int teams;  ///< teams per block

  explicit __device__ LaneTeam(int log2_lanes)
      : lanes(1 << log2_lanes),
        lane(static_cast<int>(threadIdx.x) & (lanes - 1)),
        team(static_cast<int>(threadIdx.x) >> log2_lanes),
        teams(static_cast<int>(blockDim.x) >> log2_lanes) {}

  /// Replaces each value by its reduction over the team. `Reducer` is a class of
  /// elementwise/reduce_math.hpp.
  template <class Reducer, class Value, int Count>
  __device__ void reduce(Value (&values)[Count]) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      if (distance < lanes) {
#pragma unroll
        for (Value& value : values) {
          value = Reducer::combine(value, __shfl_xor_sync(kAllLanes, value, distance));
        }
      }
    }
  }
  /// Replaces each value by its sum over the team.
  template <class Value, int Count>
  __device__ void sum(Value (&values)[Count]) {
    reduce<Total>(values);
  }
  /// Returns lane 0's value.
  [[nodiscard]] __device__ float of_first_lane(float value) const {
    return __shfl_sync(kAllLanes, value, 0, lanes);
  }
};

/// A block that shares a row. It has any number of whole warps, up to MostThreads threads.
template <int MostThreads>
struct BlockTeam {
  static constexpr bool kIsBlock = true;
  static constexpr int kMostThreads = MostThreads;
  static constexpr int team = 0;
  static constexpr int teams = 1;

  int lanes;  ///< threads per team
  int lane;
  int turn = 0;  ///< the half of the shared memory that the next reduction uses

  explicit __device__ BlockTeam(int)
      : lanes(static_cast<int>(blockDim.x)), lane(static_cast<int>(threadIdx.x)) {}

  /// Replaces each value by its reduction over the block, with one barrier. The next reduction but
  /// one overwrites the values of the warps: when a thread begins it, all threads have passed the
  /// barrier of the next reduction, and have therefore read those of this one. `Reducer` is a class
  /// of elementwise/reduce_math.hpp.
  template <class Reducer, class Value, int Count>
  __device__ void reduce(Value (&values)[Count]) {
    __shared__ Pack<Value, Count> of_warps[2][MostThreads / 32];
    auto* const reduced = of_warps[turn];
    turn ^= 1;
    reduce_warp<Reducer>(values);
    int const lane_of_warp = lane % 32;
    Pack<Value, Count> pack;
    if (lane_of_warp == 0) {
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        pack.lanes[k] = values[k];
      }
      reduced[lane / 32] = pack;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      pack.lanes[k] = Reducer::nothing();
    }
    if (lane_of_warp < lanes / 32) {
      pack = reduced[lane_of_warp];
    }
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      values[k] = pack.lanes[k];
    }
    reduce_warp<Reducer>(values);
  }
  /// Replaces each value by its sum over the block.
  template <class Value, int Count>
  __device__ void sum(Value (&values)[Count]) {
    reduce<Total>(values);
  }

 private:
  template <class Reducer, class Value, int Count>
  static __device__ void reduce_warp(Value (&values)[Count]) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
#pragma unroll
      for (Value& value : values) {
        value = Reducer::combine(value, __shfl_xor_sync(kAllLanes, value, distance));
      }
    }
  }
};

/// How threads share rows of `width` columns, each thread with up to `columns_a_thread` columns.
struct TeamSizes {
  int log2_lanes = 0;           ///< for a LaneTeam
  int threads = kBlockThreads;  ///< threads per block
  int teams = 1;                ///< teams per block

  TeamSizes(std::int64_t width, int columns_a_thread, bool is_block) {
    auto const lanes = static_cast<unsigned>(
        ceil_div<std::int64_t>(std::max<std::int64_t>(width, 1), columns_a_thread));
    if (is_block) {
      threads = 32 * static_cast<int>(ceil_div(lanes, 32U));
    } else {
      log2_lanes = std::bit_width(lanes - 1);
      teams = kBlockThreads >> log2_lanes;
    }
  }

  /// Halves the teams of a block, and with them its threads, of which it must have more than 32.
  void halve() {
    threads /= 2;
    teams /= 2;
  }
};

}  // namespace msstream::ops::kernels
