// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/tables_quads.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

/// A sink that stores the sums of gradients.
template <bool IsWhole>
struct StoreTableSums {
  static constexpr bool kIsWhole = IsWhole;
  static constexpr bool kTakesQuads = IsWhole;
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
  static constexpr bool kHasRowsOfState = false;
  __device__ LineAhead target_ahead(Table const&, ColumnsAhead const&, int, int) const {
    return {};
  }
  __device__ LineAhead state_ahead(Table const&, ColumnsAhead const&, int, bool, int) const {
    return {};
  }
  struct Held {
    __device__ void load(Table const&, std::uint32_t, Division::Lane const&) {}
  };
  template <class>
  __device__ float squares_of(Table const&,
                              Held const&,
                              bool,
                              Division::Lane const&,
                              Division::Sum const&,
                              RowLanes const&) const {
    return 0.0F;
  }
  __device__ void finish(Table const&,
                         Held const&,
                         std::uint32_t row,
                         Division::Lane const& lane,
                         Division::Sum const& sum,
                         float) const {
    auto* const to =
        row_at(values + lane.column, row, static_cast<std::uint32_t>(widest * sizeof(float)));
#pragma unroll
    for (int q = 0; q < Division::kQuads; ++q) {
      if (lane.has(q)) {  // a streaming store, because the sum is not read soon
        auto const& at = sum.at[q].at;
        __stcs(reinterpret_cast<float4*>(to + q * lane.distance),
               make_float4(at[0], at[1], at[2], at[3]));
      }
    }
  }
};

}  // namespace msstream::ops::kernels
