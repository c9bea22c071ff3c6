// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/tables_moves.cuh"

#include <cstdint>

/// The sums of embedding_gradient/tables_quads.cuh for updates by rules that need sums over whole
/// rows of more than 128 columns. All lanes of a warp share a row, and hold all its columns at
/// once.
namespace msstream::ops::kernels {

/// The division of a row among the lanes of a warp. Lane l has the columns [4 l, 4 l + 4), and
/// again at every further 128 columns, as row_lanes() says, and adds their squares in its order.
template <int Quads>
struct WideRows {
  using Lane = LaneQuads<Quads>;
  using Sum = QuadColumns<Quads>;
  static constexpr int kQuads = Quads;
  static constexpr int kWidest = Quads * 32 * kTableSumCount;  ///< columns of a row
  RowLanes shape;

  explicit WideRows(std::int64_t widest) : shape(32 * kTableSumCount, kTableSumCount) {
    shape.width = widest;
  }
  [[nodiscard]] __device__ int distance() const { return 32 * kTableSumCount; }
  template <class Squares>
  [[nodiscard]] static __device__ float squares_of_lane(Squares const& squares) {
    float sum = 0.0F;
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
      sum = squares(q, sum);
    }
    return sum;
  }
};

/// A sink that updates rows of up to WideRows<Quads>::kWidest columns, by a rule with one number of
/// state per row.
template <OptimizerKind Kind, class Weight, class Rounding, int Quads>
struct MoveWideRows : MoveTableRows<Kind, Weight, true, Rounding> {
  using Division = WideRows<Quads>;
  using Held = HeldQuads<Kind, Weight, Quads>;
  static_assert(has_row_state<Kind>);
  static constexpr bool kIsWide = true;
  static constexpr bool kTakesQuads = true;
  static constexpr int kBlocks = Quads > 2 && has_state1<Kind> ? 1 : 2;
};

}  // namespace msstream::ops::kernels
