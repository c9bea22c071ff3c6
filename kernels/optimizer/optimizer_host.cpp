// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/optimizer_rows_host.hpp"
#include "optimizer/square_sums_host.hpp"

#include <msstream/base/dtype.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {

namespace {

/// The number of bytes that are read and written to update one weight: gradient, weight and
/// optimizer state.
template <OptimizerKind Kind, class Weight>
constexpr std::int64_t kBytesOfMove = sizeof(float) + 2 * sizeof(Weight) +
                                      2 * sizeof(float) *
                                          ((has_state0<Kind> ? 1 : 0) + (has_state1<Kind> ? 1 : 0));

/// move_row() as a type, so that the compiler puts it into loops over rows.
template <OptimizerKind Kind, class Weight>
struct MoveRow {
  void operator()(StepRule const& rule,
                  HostTable const& table,
                  std::int64_t row,
                  float const* gradient) const {
    move_row<Kind, Weight>(rule, table, row, gradient);
  }
};

/// Updates the rows of a table by move_one(rule, table, row, gradient).
template <OptimizerKind Kind, class Weight, class MoveOne>
void move_rows(StepRule const& rule,
               std::int64_t step,
               RowUpdate const& update,
               MoveOne const& move_one) {
  auto const first = first_of(update);
  auto const stride = update.is_part ? update.stride : update.width;
  auto const move_some = [&](std::int64_t begin, std::int64_t end) {
    for (auto u = first + begin; u < first + end; ++u) {
      move_one(rule,
               HostTable{
                   update.table, update.state0, update.state1, update.width, update.rounding, step},
               update.row_ids[u] - update.first_row,
               update.gradients + u * stride);
    }
  };
  parallel_ranges(
      *update.row_count - first, grain_of(kBytesOfMove<Kind, Weight> * update.width), move_some);
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

/// Updates a dense parameter by LAMB: the moments first, with the sums of the squares of weights
/// and updates, and then the weights. `sums` has two numbers for each chunk.
void move_dense_by_lamb(StepRule const& rule, DenseUpdate const& update, double* sums) {
  auto const chunks = chunks_of(update.count, kLambChunk);
  auto const for_chunks = [&](auto const& work) {
    parallel_ranges(chunks,
                    grain_of(kLambChunk * kBytesOfMove<OptimizerKind::lamb, float>),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (auto chunk = begin; chunk < end; ++chunk) {
                        auto const first = chunk * kLambChunk;
                        work(chunk, first, std::min(update.count, first + kLambChunk));
                      }
                    });
  };
  auto const update_of = [&](std::int64_t i) {
    return lamb_update(rule, update.weight[i], update.state0[i], update.state1[i]);
  };
  for_chunks([&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      Rounded const g{shaped(rule, update.gradient[i], update.weight[i])};
      move_moments(rule, g, update.state0[i], update.state1[i]);
    }
    sums[chunk] = sum_of_chunk(begin, end, [&](auto i) { return update.weight[i]; });
    sums[chunks + chunk] = sum_of_chunk(begin, end, update_of);
  });
  auto const rate = lamb_rate(
      rule, trust_ratio(sum_of_chunks(sums, chunks), sum_of_chunks(sums + chunks, chunks)));
  for_chunks([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      move_by_update(rate, update_of(i), update.weight[i]);
    }
  });
}

/// Writes the copy of a weight, if it has one.
void write_copy(DenseUpdate const& update) {
  if (update.copy == nullptr) {
    return;
  }
  with_real_type("update_dense: a copy", update.copy_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    auto* const copy = static_cast<T*>(update.copy);
    parallel_ranges(
        update.count, grain_of(sizeof(float)), [&](std::int64_t begin, std::int64_t end) {
          for (auto i = begin; i < end; ++i) {
            copy[i] = from_float<T>(update.weight[i]);
          }
        });
  });
}

}  // namespace

std::size_t dense_workspace_bytes(OptimizerKind kind, std::span<DenseUpdate const> updates) {
  if (kind != OptimizerKind::lamb) {
    return 0;
  }
  std::int64_t numbers = 0;
  for (auto const& update : updates) {
    numbers += 2 * chunks_of(update.count, kLambChunk) + 1;
  }
  return static_cast<std::size_t>(numbers) * sizeof(double);
}

void update_dense(HostStream stream,
                  OptimizerRule const& rule,
                  StepState const* step,
                  std::span<DenseUpdate const> updates,
                  void* workspace) {
  stream.run([rule, step, updates = std::vector(updates.begin(), updates.end()), workspace] {
    if (is_skipped(step)) {
      // Changes no weight, but writes the copies.
    } else if (rule.kind == OptimizerKind::lamb) {
      for (auto const& update : updates) {
        move_dense_by_lamb(rule_of_step<OptimizerKind::lamb>(rule, update.numbers, step),
                           update,
                           static_cast<double*>(workspace));
      }
    } else {
      with_dense_kind(rule.kind, [&](auto kind) {
        for (auto const& update : updates) {
          move_dense<kind()>(rule_of_step<kind()>(rule, update.numbers, step), update);
        }
      });
    }
    for (auto const& update : updates) {
      write_copy(update);
    }
  });
}

void update_rows(HostStream stream,
                 OptimizerRule const& rule,
                 StepState const* step,
                 std::span<RowUpdate const> updates) {
  require_table_types(updates);
  stream.run([rule, step, updates = std::vector(updates.begin(), updates.end())] {
    if (is_skipped(step)) {
      return;
    }
    with_kind(rule.kind, [&](auto known_kind) {
      constexpr OptimizerKind kKind = known_kind();
      for (auto const& update : updates) {
        auto const step_rule = rule_of_step<kKind>(rule, update.numbers, step);
        with_real_type("update_rows: a table", update.dtype, [&](auto type) {
          using Weight = typename decltype(type)::type;
          if constexpr (HalfElement<Weight>) {
            if (update.rounding.is_stochastic) {
              return move_rows<kKind, Weight>(
                  step_rule, step_of(step), update, move_row_stochastically<kKind, Weight>);
            }
          }
          move_rows<kKind, Weight>(step_rule, step_of(step), update, MoveRow<kKind, Weight>{});
        });
      }
    });
  });
}

}  // namespace msstream::ops::kernels
