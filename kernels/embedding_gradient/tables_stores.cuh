// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/tables_pairs.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

/// A sink that stores the sums of gradients.
template <bool IsWhole>
struct StoreTableSums {
  static constexpr bool kIsWhole = IsWhole;
  static constexpr bool kTakesPairs = IsWhole;
  static constexpr bool kIsWide = false;
  using Division = QuadPairs;
  static constexpr int kInFlight = 4;
  static constexpr int kBlocks = 4;
  static constexpr bool kFindsTables = true;
  float* values;
  std::int64_t widest;

  struct Table {
    __device__ bool exists() const { return true; }
  };
  struct Ahead {
    __device__ void load(Table const&, std::int64_t, std::int64_t) {}
  };
  __device__ bool is_skipped() const { return false; }
  __device__ Table table(TablesGradientArgs const&, std::int32_t) const { return {}; }
  __device__ std::int64_t target_of(TablesGradientArgs const&,
                                    std::int32_t,
                                    std::int32_t rank) const {
    return rank;
  }
  __device__ float squares_of(Table const&, Ahead const&, Columns<kTableSumCount> const&) const {
    return 0.0F;
  }
  template <int Count>
  __device__ void add_squares(float (&)[Count], RowLanes const&) const {}
  __device__ void finish(Table const&,
                         Ahead const&,
                         RowLanes const& shape,
                         std::int64_t row,
                         std::int64_t column,
                         Columns<kTableSumCount> const& sum,
                         float) const {
    auto* const to = values + row * widest + column;
    if constexpr (IsWhole) {
      if (column < shape.width) {  // a streaming store, because the sum is not read soon
        __stcs(reinterpret_cast<float4*>(to),
               make_float4(sum.at[0], sum.at[1], sum.at[2], sum.at[3]));
      }
    } else {
      store_some_columns(to, sum, static_cast<int>(shape.width - column));
    }
  }

  /// Sums are stored where nothing is read.
  __device__ void prefetch(Table const&, std::int64_t, ColumnsAhead const&) const {}
  struct Held {
    __device__ void load(Table const&, std::int64_t, LaneColumns const&) {}
  };
  __device__ float squares_of(Table const&,
                              Held const&,
                              PairOfColumns const&,
                              RowLanes const&) const {
    return 0.0F;
  }
  __device__ void finish(Table const&,
                         Held const&,
                         std::int64_t row,
                         LaneColumns const& lane,
                         PairOfColumns const& sum,
                         float) const {
    auto* const to = values + row * widest + lane.column;
    if (lane.has_first) {
      store(to, sum.first);
    }
    if (lane.has_second) {
      store(to + lane.distance, sum.second);
    }
  }

 private:
  /// Stores columns of a sum, which is not read soon.
  static __device__ void store(float* to, Columns<kTableSumCount> const& sum) {
    __stcs(reinterpret_cast<float4*>(to), make_float4(sum.at[0], sum.at[1], sum.at[2], sum.at[3]));
  }
};

}  // namespace msstream::ops::kernels
