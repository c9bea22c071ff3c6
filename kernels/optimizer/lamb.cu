// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "optimizer/dense_copy.cuh"
#include "optimizer/lamb.hpp"
#include "optimizer/optimizer_math.hpp"
#include "optimizer/square_sums.cuh"

#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

namespace {

struct LambPiece {
  DenseUpdate update;
  double* sums;  ///< for each chunk the squares of weights, then those of updates, then the ratio
  unsigned first_block;
  unsigned chunks;
  bool aligned;
};
using LambTable = PieceTable<LambPiece, 40>;
static_assert(sizeof(LambTable) + sizeof(OptimizerRule) + sizeof(void*) <= 4096,
              "what every device takes as parameters of a kernel");

constexpr auto kLamb = OptimizerKind::lamb;
using LambPlace = QuadPlace<kLambQuads>;

__global__ void __launch_bounds__(kBlockThreads)
    lamb_moments_kernel(__grid_constant__ LambTable const table,
                        OptimizerRule const rule,
                        StepState const* step) {
  auto const& piece = piece_of_block(table.pieces, table.count);
  auto const& update = piece.update;
  LambPlace const place(piece_thread(piece), update.count, piece.aligned);
  double weights = 0.0;
  double updates = 0.0;
  if (place.exists() && !is_skipped(step)) {
    StepRule const step_rule = rule_of_step<kLamb>(rule, update.numbers, step);
    auto const weight = place.load(update.weight);
    auto const gradient = place.load(update.gradient);
    auto state0 = place.load(update.state0);
    auto state1 = place.load(update.state1);
#pragma unroll
    for (int k = 0; k < LambPlace::kLanes; ++k) {
      Rounded const g{shaped(step_rule, gradient.lanes[k], weight.lanes[k])};
      move_moments(step_rule, g, state0.lanes[k], state1.lanes[k]);
      if (place.element(k) < update.count) {
        double const w = weight.lanes[k];
        double const u = lamb_update(step_rule, weight.lanes[k], state0.lanes[k], state1.lanes[k]);
        weights = __fma_rn(w, w, weights);
        updates = __fma_rn(u, u, updates);
      }
    }
    place.store(update.state0, state0);
    place.store(update.state1, state1);
  }
  weights = sum_over_block(weights);
  updates = sum_over_block(updates);
  if (threadIdx.x == 0) {
    auto const chunk = blockIdx.x - piece.first_block;
    piece.sums[chunk] = weights;
    piece.sums[piece.chunks + chunk] = updates;
  }
}

__global__ void __launch_bounds__(kBlockThreads)
    lamb_ratio_kernel(__grid_constant__ LambTable const table) {
  auto const& piece = table.pieces[blockIdx.x];
  auto const weights = sum_of_chunks(piece.sums, piece.chunks);
  auto const updates = sum_of_chunks(piece.sums + piece.chunks, piece.chunks);
  if (threadIdx.x == 0) {
    piece.sums[2 * piece.chunks] = static_cast<double>(trust_ratio(weights, updates));
  }
}

__global__ void __launch_bounds__(kBlockThreads)
    lamb_weights_kernel(__grid_constant__ LambTable const table,
                        OptimizerRule const rule,
                        StepState const* step) {
  auto const& piece = piece_of_block(table.pieces, table.count);
  auto const& update = piece.update;
  LambPlace const place(piece_thread(piece), update.count, piece.aligned);
  if (!place.exists()) {
    return;
  }
  if (is_skipped(step)) {
    copy_unchanged(update, place);
    return;
  }
  StepRule const step_rule = rule_of_step<kLamb>(rule, update.numbers, step);
  float const rate = lamb_rate(step_rule, static_cast<float>(piece.sums[2 * piece.chunks]));
  auto weight = place.load(update.weight);
  auto const state0 = place.load(update.state0);
  auto const state1 = place.load(update.state1);
#pragma unroll
  for (int k = 0; k < LambPlace::kLanes; ++k) {
    float const moved = lamb_update(step_rule, weight.lanes[k], state0.lanes[k], state1.lanes[k]);
    move_by_update(rate, moved, weight.lanes[k]);
  }
  place.store(update.weight, weight);
  store_copy(update, place, weight);
}

}  // namespace

void update_dense_by_lamb(CudaStream stream,
                          OptimizerRule const& rule,
                          StepState const* step,
                          std::span<DenseUpdate const> updates,
                          double* workspace) {
  LambTable table;
  auto const launch = [&] {
    if (table.count == 0) {
      return;
    }
    auto const blocks = grid_for(table.blocks, 1);
    lamb_moments_kernel<<<blocks, kBlockThreads, 0, stream.handle>>>(table, rule, step);
    check_launch("update_dense");
    lamb_ratio_kernel<<<static_cast<unsigned>(table.count), kBlockThreads, 0, stream.handle>>>(
        table);
    check_launch("update_dense");
    lamb_weights_kernel<<<blocks, kBlockThreads, 0, stream.handle>>>(table, rule, step);
    check_launch("update_dense");
    table = {};
  };
  for (auto const& update : updates) {
    if (table.full()) {
      launch();
    }
    if (update.count > 0) {
      bool const aligned = quads_fit(update);
      auto const chunks = chunks_of(update.count, kLambChunk);
      table.add({update, workspace, 0, static_cast<unsigned>(chunks), aligned}, chunks);
      workspace += 2 * chunks + 1;
    }
  }
  launch();
}

}  // namespace msstream::ops::kernels
