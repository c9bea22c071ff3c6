// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/tables_borders.cuh"
#include "embedding_gradient/tables_moves.cuh"
#include "embedding_gradient/tables_update.hpp"
#include "embedding_gradient/tables_wide.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

/// The launches of embedding_tables_update(), for one way of rounding: see
/// optimizer/row_rounding.cuh.
namespace msstream::ops::kernels {

/// Returns whether four neighbouring columns of a table can be loaded at once from each of its
/// arrays.
inline bool is_whole_table(OptimizerKind kind,
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

/// The tables of one element type, and of one way of rounding, that a launch updates.
template <class Rounding>
struct MovingTables {
  using Tables = MovedTables<Rounding>;
  Tables tables;
  bool has_any = false;
  bool are_whole = true;

  MovingTables(OptimizerKind kind, TablesUpdateArgs const& args, DType dtype, std::size_t first) {
    tables.first = static_cast<std::int32_t>(first);
    auto const end = std::min(args.moves.size(), first + Tables::kMost);
    for (auto t = first; t < end; ++t) {
      auto const& table = args.gradient.plan->tables[t];
      auto const& move = args.moves[t];
      if (move.moves && table.dtype == dtype &&
          Rounding::kIsStochastic == is_stochastic(move.rounding, dtype)) {
        tables.tables[t - first] = {move.state0,
                                    move.state1,
                                    move.numbers,
                                    true,
                                    typename Rounding::OfTable(move.rounding)};
        has_any = true;
        are_whole = are_whole && is_whole_table(kind, args.gradient, table, move);
      }
    }
  }
};

/// Updates the tables whose elements are of type Weight, and that are rounded in one way.
template <class Weight, class Rounding>
void update_moving_tables(CudaStream stream,
                          OptimizerRule const& rule,
                          StepState const* step,
                          TablesUpdateArgs const& args) {
  constexpr std::size_t kMost = MovedTables<Rounding>::kMost;
  for (std::size_t first = 0; first < args.moves.size(); first += kMost) {
    MovingTables<Rounding> const moving(rule.kind, args, dtype_of<Weight>, first);
    if (!moving.has_any) {
      continue;
    }
    auto const launch = [&]<class Sink>(std::type_identity<Sink>) {
      launch_table_sums(stream, args.gradient, Sink{{moving.tables, rule, step}});
    };
    with_kind(rule.kind, [&](auto known_kind) {
      constexpr OptimizerKind kKind = known_kind();
      if constexpr (has_row_state<kKind>) {
        if (auto const widest = args.gradient.plan->widest; widest > 128) {
          if (!moving.are_whole) {
            throw std::invalid_argument("embedding_tables_update: wide tables, not aligned");
          }
          return widest > WideRows<2>::kWidest
                     ? launch(std::type_identity<MoveWideRows<kKind, Weight, Rounding, 4>>{})
                     : launch(std::type_identity<MoveWideRows<kKind, Weight, Rounding, 2>>{});
        }
      }
      if (moving.are_whole) {
        launch_table_sums(stream,
                          args.gradient,
                          MoveTableRows<kKind, Weight, true, Rounding>{moving.tables, rule, step});
      } else {
        launch_table_sums(stream,
                          args.gradient,
                          MoveTableRows<kKind, Weight, false, Rounding>{moving.tables, rule, step});
      }
    });
  }
}

/// Updates those tables of 16 bits that are rounded stochastically.
void update_stochastic_tables(CudaStream stream,
                              OptimizerRule const& rule,
                              StepState const* step,
                              TablesUpdateArgs const& args);

}  // namespace msstream::ops::kernels
