// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/optimizer_rows_host.hpp"

#include <msstream/base/dtype.hpp>

#include <vector>

namespace msstream::ops::kernels {

namespace {

/// The number of bytes that are read and written to update one weight: gradient, weight and
/// optimizer state.
template <OptimizerKind Kind, class Weight>
constexpr std::int64_t kBytesOfMove = sizeof(float) + 2 * sizeof(Weight) +
                                      2 * sizeof(float) *
                                          ((has_state0<Kind> ? 1 : 0) + (has_state1<Kind> ? 1 : 0));

template <OptimizerKind Kind, class Weight>
void move_rows(StepRule const& rule, RowUpdate const& update) {
  auto const move_some = [&](std::int64_t begin, std::int64_t end) {
    for (auto u = begin; u < end; ++u) {
      move_row<Kind, Weight>(rule,
                             {update.table, update.state0, update.state1, update.width},
                             update.row_ids[u],
                             update.gradients + u * update.width);
    }
  };
  parallel_ranges(
      *update.row_count, grain_of(kBytesOfMove<Kind, Weight> * update.width), move_some);
}

template <OptimizerKind Kind>
void move_dense(StepRule const& rule, DenseUpdate const& update) {
  auto const move_some = [&](std::int64_t begin, std::int64_t end) {
    move_range<Kind>(rule,
                     update.weight + begin,
                     update.gradient + begin,
                     has_state0<Kind> ? update.state0 + begin : nullptr,
                     has_state1<Kind> ? update.state1 + begin : nullptr,
                     end - begin);
  };
  parallel_ranges(update.count, grain_of(kBytesOfMove<Kind, float>), move_some);
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
        move_dense<kind()>(step_rule, update);
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
        with_real_type("update_rows: a table", update.dtype, [&](auto type) {
          move_rows<kind(), typename decltype(type)::type>(step_rule, update);
        });
      }
    });
  });
}

}  // namespace msstream::ops::kernels
