// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "optimizer/dense_copy.cuh"
#include "optimizer/lamb.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/optimizer_math.hpp"

#include <span>

namespace msstream::ops::kernels {

namespace {

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
  if (is_skipped(step)) {
    copy_unchanged(update, place);
    return;
  }
  auto weight = place.load(update.weight);
  auto const gradient = place.load(update.gradient);
  QuadPlace<>::Values state0{};
  QuadPlace<>::Values state1{};
  if constexpr (has_state0<Kind>) {
    state0 = place.load(update.state0);
  }
  if constexpr (has_state1<Kind>) {
    state1 = place.load(update.state1);
  }
  StepRule const step_rule = rule_of_step<Kind>(rule, update.numbers, step);
  for (int k = 0; k < 4; ++k) {
    move<Kind>(step_rule, gradient.lanes[k], weight.lanes[k], state0.lanes[k], state1.lanes[k]);
  }
  place.store(update.weight, weight);
  store_copy(update, place, weight);
  if constexpr (has_state0<Kind>) {
    place.store(update.state0, state0);
  }
  if constexpr (has_state1<Kind>) {
    place.store(update.state1, state1);
  }
}

}  // namespace

void update_dense(CudaStream stream,
                  OptimizerRule const& rule,
                  StepState const* step,
                  std::span<DenseUpdate const> updates,
                  void* workspace) {
  if (rule.kind == OptimizerKind::lamb) {
    update_dense_by_lamb(stream, rule, step, updates, static_cast<double*>(workspace));
    return;
  }
  TensorTable table;
  auto const launch = [&] {
    if (table.count == 0) {
      return;
    }
    with_dense_kind(rule.kind, [&](auto kind) {
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
      table.add({update, 0, quads_fit(update)}, grid_for(update.count, 4 * kBlockThreads));
    }
  }
  launch();
}

}  // namespace msstream::ops::kernels
