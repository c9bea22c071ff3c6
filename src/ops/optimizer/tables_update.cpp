// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/tables_update.hpp"

#include "ops/common/workspace.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/optimizer/optimizer_state.hpp"
#include "ops/optimizer/table_update.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/tensor/issue.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::ops::detail {
namespace {

/// Returns what the table's gradient is a part of, or null if that is computed, or if a kernel
/// cannot compute and apply it at once.
[[nodiscard]] TablesGradient const* sums_of(OptimizerRule const& rule, TableUpdate const& update) {
  auto const* const part = std::get_if<TablePart>(&update.gradient);
  if (part == nullptr) {
    return nullptr;
  }
  auto const* const grouped = part->all->grouped();
  if (grouped == nullptr || grouped->places == 0) {
    return nullptr;
  }
  auto const plan = grouped->tables.in_use().plan;
  auto args = grouped->args();
  args.plan = plan.get();
  if (!kernels::can_update_tables(rule.kind, args)) {
    return nullptr;
  }
  auto const& looked_up = weights_of(grouped->tables.table(part->number));
  bool const is_of_lookup = update.table.data() == looked_up.data() &&
                            update.table.shape() == looked_up.shape() &&
                            update.table.dtype() == looked_up.dtype();
  return is_of_lookup ? part->all.get() : nullptr;
}

/// Updates tables of one lookup by the sums of their gradients.
void update_tables(OptimizerRule const& rule,
                   StepCounter<AnyRuntime> const& step,
                   GroupedTables const& grouped,
                   std::vector<TableUpdate const*> const& updates,
                   std::source_location issued_at) {
  auto const& device = grouped.tables.device();
  auto const plan = grouped.tables.in_use().plan;
  std::vector<kernels::TableMove> moves(plan->tables.size());
  Writes written;
  for (auto const* const update : updates) {
    auto const& [table, gradient, state, group, rounding] = *update;
    require_state("update_rows", rule.kind, state, table.shape());
    require_group("update_rows", group);
    written.add(table);
    add_state(state, written);
    moves[static_cast<std::size_t>(std::get<TablePart>(gradient).number)] = {
        data_of(state.first), data_of(state.second), numbers_of(rule, group), true, rounding};
  }
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::embedding_tables_gradient_workspace_bytes(
                                  stream, grouped.places, plan->widest);
                            }));
  auto args = grouped.args();
  args.plan = plan.get();
  args.workspace = workspace.data();
  auto read = grouped.reads();
  read.add(step.tensor());
  issue(
      "update_tables",
      read,
      workspace.with(written),
      [rule, counter = data_of(step), args, plan, moves = std::move(moves)](auto stream) {
        kernels::embedding_tables_update(stream, rule, counter, {args, moves});
      },
      {},
      issued_at);
}

}  // namespace

std::vector<TableUpdate> update_by_sums(OptimizerRule const& rule,
                                        StepCounter<AnyRuntime> const& step,
                                        std::vector<TableUpdate> const& tables,
                                        std::source_location issued_at) {
  std::vector<TableUpdate> others;
  std::vector<std::pair<TablesGradient const*, std::vector<TableUpdate const*>>> lookups;
  for (auto const& update : tables) {
    auto const* const sums = sums_of(rule, update);
    if (sums == nullptr) {
      others.push_back(update);
      continue;
    }
    auto lookup = std::ranges::find(lookups, sums, [](auto const& one) { return one.first; });
    if (lookup == lookups.end()) {
      lookup = lookups.insert(lookup, {sums, {}});
    }
    lookup->second.push_back(&update);
  }
  for (auto const& [sums, updates] : lookups) {
    update_tables(rule, step, *sums->grouped(), updates, issued_at);
  }
  return others;
}

}  // namespace msstream::ops::detail
