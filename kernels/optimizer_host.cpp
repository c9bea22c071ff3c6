// SPDX-License-Identifier: Apache-2.0
#include "optimizer_math.hpp"
#include "parallel_rows_host.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/kernels/optimizer.hpp>

#include <vector>

namespace msstream::ops::kernels {

namespace {

/// What one weight's move reads and writes.
template <OptimizerKind Kind, class Weight>
constexpr std::int64_t kBytesOfMove = sizeof(float) + 2 * sizeof(Weight) +
                                      2 * sizeof(float) *
                                          ((has_state0<Kind> ? 1 : 0) + (has_state1<Kind> ? 1 : 0));

/// Moves `count` neighbouring weights; the arrays do not overlap.
template <OptimizerKind Kind, class Weight>
void move_range(StepRule const& rule,
                Weight* __restrict weights,
                float const* __restrict gradients,
                float* __restrict states0,
                float* __restrict states1,
                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    float weight = to_float(weights[i]);
    float state0 = 0.0F;
    float state1 = 0.0F;
    if constexpr (has_state0<Kind>) {
      state0 = states0[i];
    }
    if constexpr (has_state1<Kind>) {
      state1 = states1[i];
    }
    move<Kind>(rule, gradients[i], weight, state0, state1);
    weights[i] = from_float<Weight>(weight);
    if constexpr (has_state0<Kind>) {
      states0[i] = state0;
    }
    if constexpr (has_state1<Kind>) {
      states1[i] = state1;
    }
  }
}

template <OptimizerKind Kind, class Weight>
void move_rows(StepRule const& rule, RowUpdate const& update) {
  auto const width = update.width;
  auto const move_some = [&](std::int64_t begin, std::int64_t end) {
    for (auto u = begin; u < end; ++u) {
      auto const place = update.row_ids[u] * width;
      move_range<Kind>(rule,
                       static_cast<Weight*>(update.table) + place,
                       update.gradients + u * width,
                       has_state0<Kind> ? update.state0 + place : nullptr,
                       has_state1<Kind> ? update.state1 + place : nullptr,
                       width);
    }
  };
  parallel_ranges(*update.row_count, grain_of(kBytesOfMove<Kind, Weight> * width), move_some);
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
    with_kind(rule.kind, [&](auto kind) {
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
        with_table_type(update.dtype, [&](auto type) {
          move_rows<kind(), typename decltype(type)::type>(step_rule, update);
        });
      }
    });
  });
}

}  // namespace msstream::ops::kernels
