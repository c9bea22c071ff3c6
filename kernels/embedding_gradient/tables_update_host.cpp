// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "embedding_gradient/tables_rows_host.hpp"
#include "embedding_gradient/tables_update.hpp"
#include "optimizer/row_mover_host.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// How the rows of one table are updated.
struct Mover {
  RowMover move;  ///< null if the table does not move
  HostTable table;
  GroupNumbers numbers;
};

std::vector<Mover> movers_of(OptimizerRule const& rule, TablesUpdateArgs const& args) {
  std::vector<Mover> movers;
  for (std::size_t t = 0; t < args.moves.size(); ++t) {
    auto const& table = args.gradient.plan->tables[t];
    auto const& move = args.moves[t];
    movers.push_back(
        {move.moves
             ? row_mover("embedding_tables_update: a table", rule.kind, table.dtype, move.rounding)
             : nullptr,
         {const_cast<void*>(table.table), move.state0, move.state1, table.width, move.rounding},
         move.numbers});
  }
  return movers;
}

template <class T>
void update_rows_of_tables(OptimizerRule const& rule,
                           StepState const* step,
                           TablesGradientArgs const& args,
                           TableSizes const& tables,
                           std::vector<Mover> const& movers) {
  std::vector<StepRule> rules;
  std::vector<HostTable> moved;
  for (auto const& mover : movers) {
    rules.push_back(step_rule_of(rule, mover.numbers, step));
    moved.push_back(mover.table);
    moved.back().step = step_of(step);
  }
  for_rows_of_tables<T>(args, tables, [&] {
    std::vector<float> gradient(static_cast<std::size_t>(tables.widest));
    return [&, gradient](std::int64_t number, std::int64_t u) mutable {
      auto const t = static_cast<std::size_t>(number);
      auto const& mover = movers[t];
      if (mover.move != nullptr) {
        sum_row_of_table<T>(args, tables, number, u, gradient.data());
        mover.move(
            rules[t], moved[t], args.unique_rows[u] - args.first_rows[number], gradient.data());
      }
    };
  });
}

}  // namespace

void embedding_tables_update(HostStream stream,
                             OptimizerRule const& rule,
                             StepState const* step,
                             TablesUpdateArgs const& args) {
  auto const& gradient = args.gradient;
  with_real_type("embedding_tables_update: a gradient", gradient.gradient_dtype, [&](auto type) {
    stream.run([rule,
                step,
                gradient,
                tables = TableSizes(*gradient.plan, gradient.gradient_stride),
                movers = movers_of(rule, args)] {
      if (!is_skipped(step)) {
        update_rows_of_tables<typename decltype(type)::type>(rule, step, gradient, tables, movers);
      }
    });
  });
}

}  // namespace msstream::ops::kernels
