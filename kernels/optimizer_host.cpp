// SPDX-License-Identifier: Apache-2.0
#include "optimizer_rows_host.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/kernels/optimizer.hpp>

#include <vector>

namespace msstream::ops::kernels {

namespace {

template <OptimizerKind Kind, class Weight>
void move_rows(StepRule const& rule, RowUpdate const& update) {
  for (std::int64_t u = 0; u < *update.row_count; ++u) {
    move_row<Kind, Weight>(rule,
                           {update.table, update.state0, update.state1, update.width},
                           update.row_ids[u],
                           update.gradients + u * update.width);
  }
}

}  // namespace

void advance_step(HostStream stream, OptimizerRule const& rule, StepState* state) {
  stream.run([rule, state] { advance(rule, *state); });
}

void update_dense(HostStream stream,
                  OptimizerRule const& rule,
                  StepState const* step,
                  std::span<DenseUpdate const> updates) {
  stream.run([rule, step, updates = std::vector(updates.begin(), updates.end())] {
    with_dense_kind(rule.kind, [&](auto kind) {
      auto const step_rule = rule_of_step<kind()>(rule, step);
      for (auto const& update : updates) {
        move_range<kind()>(
            step_rule, update.weight, update.gradient, update.state0, update.state1, update.count);
      }
    });
  });
}

void update_rows(HostStream stream,
                 OptimizerRule const& rule,
                 StepState const* step,
                 std::span<RowUpdate const> updates) {
  require_table_types(updates);
  stream.run([rule, step, updates = std::vector(updates.begin(), updates.end())] {
    with_kind(rule.kind, [&](auto kind) {
      auto const step_rule = rule_of_step<kind()>(rule, step);
      for (auto const& update : updates) {
        with_table_type(update.dtype, [&](auto type) {
          move_rows<kind(), typename decltype(type)::type>(step_rule, update);
        });
      }
    });
  });
}

}  // namespace msstream::ops::kernels
