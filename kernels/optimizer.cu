// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "elementwise_pack.cuh"
#include "optimizer_math.hpp"

#include <msstream/ops/kernels/optimizer.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

namespace msstream::ops::kernels {

namespace {

__device__ inline float widen(float value) {
  return value;
}
__device__ inline float widen(float16 value) {
  return __half2float(__ushort_as_half(value.bits));
}
__device__ inline float widen(bfloat16 value) {
  return __bfloat162float(__ushort_as_bfloat16(value.bits));
}
__device__ inline void narrow(float value, float& to) {
  to = value;
}
__device__ inline void narrow(float value, float16& to) {
  to.bits = __half_as_ushort(__float2half_rn(value));
}
__device__ inline void narrow(float value, bfloat16& to) {
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

__global__ void advance_kernel(OptimizerRule const rule, StepState* state) {
  advance(rule, *state);
}

struct TensorPiece {
  DenseUpdate update;
  unsigned first_block;
  bool aligned;
};
using TensorTable = PieceTable<TensorPiece, 48>;

template <OptimizerKind Kind>
__global__ void __launch_bounds__(kBlockThreads)
    update_dense_kernel(__grid_constant__ TensorTable const table,
                        OptimizerRule const rule,
                        StepState const* step) {
  auto const& piece = piece_of_block(table.pieces, table.count);
  auto const& update = piece.update;
  QuadPlace const place(piece_thread(piece), update.count, piece.aligned);
  if (!place.exists()) {
    return;
  }
  Quad weight = place.load(update.weight);
  Quad const gradient = place.load(update.gradient);
  Quad state0{};
  Quad state1{};
  if constexpr (has_state0<Kind>) {
    state0 = place.load(update.state0);
  }
  if constexpr (has_state1<Kind>) {
    state1 = place.load(update.state1);
  }
  StepRule const step_rule = rule_of_step<Kind>(rule, step);
  for (int k = 0; k < 4; ++k) {
    move<Kind>(step_rule, gradient.lanes[k], weight.lanes[k], state0.lanes[k], state1.lanes[k]);
  }
  place.store(update.weight, weight);
  if constexpr (has_state0<Kind>) {
    place.store(update.state0, state0);
  }
  if constexpr (has_state1<Kind>) {
    place.store(update.state1, state1);
  }
}

/// A thread moves `Lanes` neighbouring weights of a row; the grid walks as far as *row_count says.
template <OptimizerKind Kind, class Weight, int Lanes>
__global__ void __launch_bounds__(kBlockThreads)
    update_rows_kernel(RowUpdate const update, OptimizerRule const rule, StepState const* step) {
  using Weights = Pack<Weight, Lanes>;
  using Floats = Pack<float, Lanes>;
  std::int64_t const units_a_row = update.width / Lanes;
  std::int64_t const units = *update.row_count * units_a_row;
  StepRule const step_rule = rule_of_step<Kind>(rule, step);
  for (std::int64_t unit = grid_thread(); unit < units; unit += grid_stride()) {
    std::int64_t const u = unit / units_a_row;
    std::int64_t const column = (unit - u * units_a_row) * Lanes;
    std::int64_t const place = update.row_ids[u] * update.width + column;
    auto* const weights_at = reinterpret_cast<Weights*>(static_cast<Weight*>(update.table) + place);
    auto* const state0_at = reinterpret_cast<Floats*>(update.state0 + place);
    auto* const state1_at = reinterpret_cast<Floats*>(update.state1 + place);
    Floats const gradient =
        *reinterpret_cast<Floats const*>(update.gradients + u * update.width + column);
    Weights weights = *weights_at;
    Floats state0{};
    Floats state1{};
    if constexpr (has_state0<Kind>) {
      state0 = *state0_at;
    }
    if constexpr (has_state1<Kind>) {
      state1 = *state1_at;
    }
    for (int k = 0; k < Lanes; ++k) {
      float weight = widen(weights.lanes[k]);
      move<Kind>(step_rule, gradient.lanes[k], weight, state0.lanes[k], state1.lanes[k]);
      narrow(weight, weights.lanes[k]);
    }
    *weights_at = weights;
    if constexpr (has_state0<Kind>) {
      *state0_at = state0;
    }
    if constexpr (has_state1<Kind>) {
      *state1_at = state1;
    }
  }
}

template <OptimizerKind Kind, class Weight, int Lanes>
void launch_update_rows(CudaStream stream,
                        OptimizerRule const& rule,
                        StepState const* step,
                        RowUpdate const& update) {
  // Enough blocks to fill a large device; more would only be started to find nothing to do when
  // few of the rows exist.
  constexpr unsigned kMostBlocks = 2048;
  auto const units = update.capacity * (update.width / Lanes);
  auto const blocks = std::min(kMostBlocks, grid_for(units, kBlockThreads));
  update_rows_kernel<Kind, Weight, Lanes>
      <<<blocks, kBlockThreads, 0, stream.handle>>>(update, rule, step);
  check_launch("update_rows");
}

}  // namespace

void advance_step(CudaStream stream, OptimizerRule const& rule, StepState* state) {
  advance_kernel<<<1, 1, 0, stream.handle>>>(rule, state);
  check_launch("advance_step");
}

void update_dense(CudaStream stream,
                  OptimizerRule const& rule,
                  StepState const* step,
                  std::span<DenseUpdate const> updates) {
  TensorTable table;
  auto const launch = [&] {
    if (table.count == 0) {
      return;
    }
    with_kind(rule.kind, [&](auto kind) {
      update_dense_kernel<kind()>
          <<<grid_for(table.blocks, 1), kBlockThreads, 0, stream.handle>>>(table, rule, step);
    });
    check_launch("update_dense");
  };
  for (auto const& update : updates) {
    if (table.full()) {
      launch();
      table = {};
    }
    if (update.count > 0) {
      bool const aligned = quads_fit(update.weight, update.gradient, update.state0, update.state1);
      table.add({update, 0, aligned}, grid_for(update.count, 4 * kBlockThreads));
    }
  }
  launch();
}

void update_rows(CudaStream stream,
                 OptimizerRule const& rule,
                 StepState const* step,
                 RowUpdate const& update) {
  with_table_type(update.dtype, [&](auto type) {
    using Weight = typename decltype(type)::type;
    if (update.capacity <= 0 || update.width <= 0) {
      return;
    }
    bool const quads = update.width % 4 == 0 &&
                       quads_fit(update.table, update.gradients, update.state0, update.state1);
    with_kind(rule.kind, [&](auto kind) {
      if (quads) {
        launch_update_rows<kind(), Weight, 4>(stream, rule, step, update);
      } else {
        launch_update_rows<kind(), Weight, 1>(stream, rule, step, update);
      }
    });
  });
}

}  // namespace msstream::ops::kernels
