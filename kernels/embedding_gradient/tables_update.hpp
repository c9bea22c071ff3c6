// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/tables_gradient.hpp"
#include "optimizer/optimizer.hpp"

#include <msstream/ops/optimizer_rule.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

/// The optimizer state of one table of a lookup in many, and the numbers of its group.
struct TableMove {
  float* state0 = nullptr;  ///< float32 [rows, width], [rows] if row-wise, or null
  float* state1 = nullptr;
  GroupNumbers numbers = {};
  bool moves = false;  ///< whether the table is updated
  RowRounding rounding = {};
};

/// Applies one optimizer step to the rows that a lookup in many tables has read, without storing
/// the gradients of rows in memory. Each row is updated once. Gives the same bits as
/// embedding_tables_gradient() followed by update_rows().
struct TablesUpdateArgs {
  /// `values` and `table_starts` are unused, and the workspace is the same. The tables that move
  /// are written at the addresses that their descriptors have.
  TablesGradientArgs gradient;
  std::span<TableMove const> moves;  ///< [tables], host memory, read before the call returns
};
/// Returns whether embedding_tables_update() can apply rules of a kind to the tables of
/// `gradient.plan`. Rules that need sums over a whole row take only rows that the lanes of a warp
/// hold at once: up to 128 columns, and up to 512 if the rule has one number of state per row and
/// four columns can be loaded at once. Arrays of state must then be aligned to 16 bytes.
[[nodiscard]] inline bool can_update_tables(OptimizerKind kind,
                                            TablesGradientArgs const& gradient) {
  bool const has_row_number =
      kind == OptimizerKind::rowwise_adagrad || kind == OptimizerKind::partial_rowwise_adam;
  auto const& plan = *gradient.plan;
  if ((!has_row_number && kind != OptimizerKind::lamb) || plan.widest <= 128) {
    return true;
  }
  return has_row_number && plan.widest <= 512 &&
         std::ranges::all_of(plan.tables, [&](TableDescriptor const& table) {
           return has_whole_gradient(gradient, table) &&
                  reinterpret_cast<std::uintptr_t>(table.table) % (4 * bytes_of(table.dtype)) == 0;
         });
}
void embedding_tables_update(HostStream stream,
                             OptimizerRule const& rule,
                             StepState const* step,
                             TablesUpdateArgs const& args);
void embedding_tables_update(CudaStream stream,
                             OptimizerRule const& rule,
                             StepState const* step,
                             TablesUpdateArgs const& args);

}  // namespace msstream::ops::kernels
