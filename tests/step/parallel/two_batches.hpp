// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/parallel/rows_of_bags.hpp"
#include "step/parallel/sharded_training.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::testing {

/// Tables in parts on one of two ranks, a batch that has been looked up, and the next one. All work
/// so far is complete.
template <Runtime R>
struct TwoBatches {
  static constexpr std::int64_t kSamples = 12;  ///< of each rank and batch

  TwoBatches(Rank<R> const& rank, SentRows sent)
      : tables(specs,
               rank.communicator,
               {.most_samples = kSamples, .seed = 5, .sent = sent},
               plan_of(specs, {Sharding::row_wise, Sharding::table_wise}, rank.size())),
        optimizer(rank.device, rule_of_shards(ShardRule::sgd)),
        tape(rank.device),
        now_of_ranks{random_bags(specs, kSamples, true, 10),
                     random_bags(specs, kSamples, true, 11)},
        own_next(random_bags(specs, kSamples, true, 20 + static_cast<std::uint64_t>(rank.rank()))),
        bags(rank.device, specs, kSamples, {0, kSamples}, true),
        next_bags(rank.device, specs, kSamples, {0, kSamples}, true),
        now((bags.put(now_of_ranks[static_cast<std::size_t>(rank.rank())]),
             tables.exchange(bags.bags()))),
        pooled(tables.lookup(tape, now)) {
    tables.add_to(optimizer);
    next_bags.put(own_next);
    rank.device.default_group().synchronize();
    rank.communicator.synchronize();
    Parameters<R> parameters(rank.device, {.seed = 5});
    for (auto const& spec : specs) {
      first_values.push_back(to_host(parameters.table(spec.name, {spec.rows, spec.width})));
    }
  }

  void play_back() { tape.backward(ops::sum(tape, ops::sum(tape, pooled, 0), 0)); }
  /// Plays the batch back and updates the tables.
  void train() {
    play_back();
    optimizer.step(tape);
  }

  std::vector<TableSpec> specs = specs_of_prefetch();
  ShardedTables<R> tables;
  Optimizer<R> optimizer;
  GradientTape<R> tape;
  std::vector<BagLists> now_of_ranks;
  BagLists own_next;
  BagsOnDevice<R> bags;
  BagsOnDevice<R> next_bags;
  ShardedIds<R> now;
  Tensor<float, R> pooled;
  std::vector<std::vector<float>> first_values;  ///< of whole tables, before the update
};

}  // namespace msstream::testing
