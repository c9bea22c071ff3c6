// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "embedding_gradient/tables_borders.cuh"
#include "embedding_gradient/tables_moves.cuh"
#include "embedding_gradient/tables_update.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

/// Returns whether four neighbouring columns of a table can be loaded at once from each of its
/// arrays.
bool is_whole(OptimizerKind kind,
              TablesGradientArgs const& args,
              TableDescriptor const& table,
              TableMove const& move) {
  auto const fits = [](void const* data, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
  };
  return has_whole_gradient(args, table) && fits(table.table, 4 * bytes_of(table.dtype)) &&
         (kind == OptimizerKind::rowwise_adagrad || fits(move.state0, 16)) &&
         (kind == OptimizerKind::partial_rowwise_adam || fits(move.state1, 16));
}

/// The tables of one element type that a launch updates.
struct Moving {
  MovedTables tables;
  bool has_any = false;
  bool are_whole = true;

  Moving(OptimizerKind kind, TablesUpdateArgs const& args, DType dtype, std::size_t first) {
    tables.first = static_cast<std::int32_t>(first);
    auto const end = std::min(args.moves.size(), first + MovedTables::kMost);
    for (auto t = first; t < end; ++t) {
      auto const& table = args.gradient.plan->tables[t];
      auto const& move = args.moves[t];
      if (move.moves && table.dtype == dtype) {
        tables.tables[t - first] = {move.state0, move.state1, move.numbers, true};
        has_any = true;
        are_whole = are_whole && is_whole(kind, args.gradient, table, move);
      }
    }
  }
};

}  // namespace

void embedding_tables_update(CudaStream stream,
                             OptimizerRule const& rule,
                             StepState const* step,
                             TablesUpdateArgs const& args) {
  require_real_type("embedding_tables_update: a gradient", args.gradient.gradient_dtype);
  auto const launch = [&]<class Weight>(std::type_identity<Weight>, std::size_t first) {
    Moving const moving(rule.kind, args, dtype_of<Weight>, first);
    if (!moving.has_any) {
      return;
    }
    with_kind(rule.kind, [&](auto kind) {
      if (moving.are_whole) {
        launch_table_sums(
            stream, args.gradient, MoveTableRows<kind(), Weight, true>{moving.tables, rule, step});
      } else {
        launch_table_sums(
            stream, args.gradient, MoveTableRows<kind(), Weight, false>{moving.tables, rule, step});
      }
    });
  };
  for (std::size_t first = 0; first < args.moves.size(); first += MovedTables::kMost) {
    launch(std::type_identity<float>{}, first);
    launch(std::type_identity<float16>{}, first);
    launch(std::type_identity<bfloat16>{}, first);
  }
}

}  // namespace msstream::ops::kernels
