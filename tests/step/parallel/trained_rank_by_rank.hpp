// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/parallel/sharded_training.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msstream::testing {

/// Trains whole tables, with a lookup of its own for the samples of each rank, whose gradients of a
/// row are summed before they are added in the order of the ranks. With stale rows, the pooled rows
/// are those of the tables as they are before the update of the step before.
template <Runtime R>
[[nodiscard]] TrainedShards trained_rank_by_rank(int ranks, HowShards const& how) {
  Device<R> const device;
  auto const specs = specs_of_shards(how);
  Parameters<R> parameters(device, {.seed = 77});
  auto const together = whole_tables(device, specs, parameters);
  std::int64_t columns = 0;
  for (auto const& spec : specs) {
    columns += spec.width;
  }
  Optimizer<R> optimizer(device, rule_of_shards(how.rule));
  optimizer.add(parameters);
  GradientTape<R> tape(device);
  auto const parts = uneven_parts(kShardSamples, ranks);
  TrainedShards trained;
  auto const bags_of = [&](BatchPart const& part, int step) {
    BagsOnDevice<R> bags(device, specs, kShardSamples, part, how.is_fixed);
    bags.put(random_bags(specs, kShardSamples, how.is_fixed, static_cast<std::uint64_t>(step)));
    return bags;
  };
  auto const pooled_in = [&](int step) {
    return to_host(ops::embedding_lookup(together, bags_of({0, kShardSamples}, step).bags()));
  };
  bool const is_stale = how.rows_ahead == RowsAhead::stale;
  trained.pooled.push_back(pooled_in(0));
  for (int step = 0; step < kShardSteps; ++step) {
    auto coefficients = coefficients_of(step, columns);
    for (auto& coefficient : coefficients) {
      coefficient *= how.scale;
    }
    auto const all = to_device(device, coefficients, {kShardSamples, columns});
    std::optional<Tensor<float, R>> loss;
    // The backward begins with the last one.
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (part->rows() == 0) {
        continue;
      }
      auto const pooled = ops::embedding_lookup(tape, together, bags_of(*part, step).bags());
      auto const own = loss_of_shards(tape, pooled, all.rows(part->begin, part->end));
      loss = loss ? ops::add(tape, *loss, own) : own;
    }
    tape.backward(*loss);
    auto const before = pooled_in(step + 1);
    optimizer.step(tape);
    tape.clear();
    if (step + 1 < kShardSteps) {
      trained.pooled.push_back(is_stale ? before : pooled_in(step + 1));
    }
  }
  parameters.visit_state([&](std::string const& name, auto const& table) {
    trained.tables[name] = elements_as_floats(table);
  });
  return trained;
}

[[nodiscard]] inline std::vector<std::vector<Sharding>> plans_of_distinct_rows() {
  return {{Sharding::table_wise},
          {Sharding::row_wise},
          {Sharding::column_wise},
          {Sharding::replicated},
          {Sharding::row_wise, Sharding::replicated, Sharding::table_wise, Sharding::column_wise}};
}

}  // namespace msstream::testing
