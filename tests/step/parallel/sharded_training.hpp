// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/kept_ranks.hpp"
#include "step/parallel/sharded_bags.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace msstream::testing {

using ShardRule = ops::OptimizerKind;

constexpr std::int64_t kShardSamples = 11;
constexpr int kShardSteps = 3;

struct HowShards {
  std::vector<Sharding> shardings = {Sharding::table_wise};
  ShardRule rule = ShardRule::sgd;
  bool is_fixed = false;
  int groups = 0;
  bool is_captured = false;
  bool is_ahead = false;  ///< the ids of the next step are exchanged before the update
  comm::Reduction reduction = comm::Reduction::sum;
  int parts = 0;            ///< of a batch, for the mean
  float scale = 1;          ///< of the loss of tables that are not divided
  bool is_on_last = false;  ///< all tables that are table_wise are on the last rank
  bool is_largest = false;  ///< the first two tables take the maximum
  SentRows sent = SentRows::pooled;
  RowsAhead rows_ahead = RowsAhead::none;  ///< with is_ahead
  std::int64_t rows_times = 1;             ///< tables have so many times as many rows
};

[[nodiscard]] inline std::vector<TableSpec> specs_of_shards(HowShards const& how) {
  std::vector<TableSpec> specs{
      {.name = "sums", .rows = 23, .width = 5, .hotness = 3, .initializer = init::uniform(-1, 1)},
      {.name = "means",
       .rows = 9,
       .width = 4,
       .pooling = ops::Pooling::mean,
       .hotness = 2,
       .initializer = init::normal(0, 1)},
      {.name = "roots", .rows = 40, .width = 3, .pooling = ops::Pooling::sqrtn, .hotness = 4},
      {.name = "halves",
       .rows = 12,
       .width = 6,
       .hotness = 1,
       .dtype = DType::float16,
       .initializer = init::xavier_uniform()},
      {.name = "one", .rows = 4, .width = 1, .hotness = 1, .initializer = init::uniform(-1, 1)},
  };
  for (std::size_t t = 0; how.is_largest && t < 2; ++t) {
    specs[t].pooling = ops::Pooling::max;
  }
  for (auto& spec : specs) {
    spec.rows *= how.rows_times;
  }
  return specs;
}

/// The pooled rows of all samples in all steps, and the tables at the end.
struct TrainedShards {
  std::vector<std::vector<float>> pooled;
  std::map<std::string, std::vector<float>> tables;
};

[[nodiscard]] inline std::vector<float> coefficients_of(int step, std::int64_t columns) {
  return random_elements<float>(static_cast<std::uint64_t>(step) + 100,
                                static_cast<std::size_t>(kShardSamples * columns));
}

/// Returns a loss whose gradient by the pooled rows is the coefficients.
template <Runtime R>
[[nodiscard]] Tensor<float, R> loss_of_shards(GradientTape<R>& tape,
                                              Tensor<float, R> const& pooled,
                                              Tensor<float, R> const& coefficients) {
  tape.without_gradient(coefficients);
  return ops::sum(tape, ops::sum(tape, ops::multiply(tape, pooled, coefficients), 0), 0);
}

template <Runtime R>
[[nodiscard]] std::vector<float> elements_as_floats(Tensor<float, R> const& tensor) {
  return to_host(tensor);
}
template <Element T, Runtime R>
[[nodiscard]] std::vector<float> elements_as_floats(Tensor<T, R> const& tensor) {
  std::vector<float> elements;
  for (auto const element : to_host(tensor)) {
    elements.push_back(to_float(element));
  }
  return elements;
}

[[nodiscard]] inline ops::OptimizerRule rule_of_shards(ShardRule kind) {
  return {.kind = kind, .learning_rate = 0.1F, .epsilon = kind == ShardRule::sgd ? 1e-8F : 0.05F};
}

/// Returns tables that are not divided, whose weights are parameters.
template <Runtime R>
[[nodiscard]] ops::EmbeddingTables<R> whole_tables(Device<R> const& device,
                                                   std::vector<TableSpec> const& specs,
                                                   Parameters<R>& parameters) {
  std::vector<ops::EmbeddingTable<R>> tables;
  for (auto const& spec : specs) {
    ops::EmbeddingTable<R> table{.weights = Tensor<float, R>(device, {1, 1}),
                                 .pooling = spec.pooling,
                                 .hotness = spec.hotness};
    if (spec.dtype == DType::float16) {
      table.weights =
          parameters.template table<float16>(spec.name, {spec.rows, spec.width}, spec.initializer);
    } else {
      table.weights = parameters.table(spec.name, {spec.rows, spec.width}, spec.initializer);
    }
    tables.push_back(table);
  }
  return ops::EmbeddingTables<R>(device, tables);
}

/// Trains tables that are not divided on the whole batch. With stale rows, a lookup comes before
/// the update of the step before.
template <Runtime R>
[[nodiscard]] TrainedShards trained_whole(HowShards const& how) {
  Device<R> const device;
  auto const specs = specs_of_shards(how);
  Parameters<R> parameters(device, {.seed = 77});
  auto const together = whole_tables(device, specs, parameters);
  Optimizer<R> optimizer(device, rule_of_shards(how.rule));
  optimizer.add(parameters);
  // Even and odd steps take turns, so that a lookup may come before the update of another step.
  std::array<GradientTape<R>, 2> tapes{GradientTape<R>(device), GradientTape<R>(device)};
  std::vector<BagsOnDevice<R>> bags;
  for (int i = 0; i < 2; ++i) {
    bags.emplace_back(device, specs, kShardSamples, BatchPart{0, kShardSamples}, how.is_fixed);
  }
  auto const looked_up = [&](int step) {
    auto const i = static_cast<std::size_t>(step % 2);
    bags[i].put(random_bags(specs, kShardSamples, how.is_fixed, static_cast<std::uint64_t>(step)));
    return ops::embedding_lookup(tapes[i], together, bags[i].bags());
  };
  std::optional<Tensor<float, R>> ahead;
  TrainedShards trained;
  for (int step = 0; step < kShardSteps; ++step) {
    auto& tape = tapes[static_cast<std::size_t>(step % 2)];
    auto const pooled = ahead ? *ahead : looked_up(step);
    trained.pooled.push_back(to_host(pooled));
    auto coefficients = coefficients_of(step, together.width());
    for (auto& coefficient : coefficients) {
      coefficient *= how.scale;
    }
    tape.backward(loss_of_shards(
        tape, pooled, to_device(device, coefficients, {kShardSamples, together.width()})));
    if (how.rows_ahead == RowsAhead::stale) {
      ahead = looked_up(step + 1);
    }
    optimizer.step(tape);
    tape.clear();
  }
  parameters.visit_state([&](std::string const& name, auto const& table) {
    trained.tables[name] = elements_as_floats(table);
  });
  return trained;
}

[[nodiscard]] inline TablePlan plan_of_how(std::vector<TableSpec> const& specs,
                                           HowShards const& how,
                                           int ranks) {
  auto plan = plan_of(specs, how.shardings, ranks);
  for (auto& at : plan.tables) {
    if (how.is_on_last && at.sharding == Sharding::table_wise) {
      at.ranks = {ranks - 1};
    }
  }
  return plan;
}

/// Trains the tables in parts.
template <Runtime R>
class ShardsOfRank {
 public:
  ShardsOfRank(Rank<R> const& rank, HowShards const& how)
      : device_(rank.device),
        how_(how),
        part_(uneven_parts(kShardSamples, rank.size())[static_cast<std::size_t>(rank.rank())]),
        specs_(specs_of_shards(how)),
        tables_(specs_,
                rank.communicator,
                {.most_samples = kShardSamples,
                 .seed = 77,
                 .reduction = how.reduction,
                 .parts = how.parts,
                 .sent = how.sent},
                plan_of_how(specs_, how, rank.size())),
        optimizer_(rank.device, rule_of_shards(how.rule)),
        tape_(rank.device),
        bags_(rank.device, specs_, kShardSamples, part_, how.is_fixed),
        next_bags_(rank.device, specs_, kShardSamples, part_, how.is_fixed),
        coefficients_(rank.device, {part_.rows(), tables_.width()}) {
    tables_.add_to(optimizer_);
    if (how.groups > 0) {
      pool_.emplace(device_, StreamPoolOptions{.groups = how.groups, .log = nullptr});
    }
  }

  /// Returns the pooled rows of the rank's samples in each step.
  std::vector<std::vector<float>> train() {
    std::vector<std::vector<float>> all;
    put(0);
    std::optional<Tensor<float, R>> pooled;
    std::optional<ShardedIds<R>> now;
    if (how_.is_ahead) {
      auto const first = tables_.exchange(bags_.bags());
      now = with_rows_ahead(tables_, how_.rows_ahead, first, first);
    }
    auto const step = [&] {
      std::optional<StreamScope<R>> scope;
      if (pool_) {
        scope.emplace((*pool_)[how_.groups - 1], StreamScopeOptions{.include_grad = true});
      }
      auto const ids = now ? *now : tables_.exchange(bags_.bags());
      pooled = tables_.lookup(tape_, ids);
      auto const loss = loss_of_shards(tape_, *pooled, coefficients_);
      std::optional<ShardedIds<R>> next;
      if (how_.is_ahead) {
        next = with_rows_ahead(tables_, how_.rows_ahead, tables_.exchange(next_bags_.bags()), ids);
      }
      tape_.backward(loss);
      optimizer_.step(tape_);
      tape_.clear();
      if (next && how_.is_captured) {
        now->assign(*next);
      } else if (next) {
        now = next;
      }
    };
    std::optional<CapturedStep<R>> captured;
    if (how_.is_captured) {
      captured.emplace(device_, step);
    }
    for (int i = 0; i < kShardSteps; ++i) {
      put(i);
      if (captured) {
        captured->replay();
      } else {
        step();
      }
      all.push_back(to_host(*pooled));
    }
    return all;
  }
  [[nodiscard]] ShardedTables<R> const& tables() const { return tables_; }

 private:
  void put(int step) {
    auto const of_step = [&](int number) {
      return random_bags(specs_, kShardSamples, how_.is_fixed, static_cast<std::uint64_t>(number));
    };
    bags_.put(of_step(step));
    next_bags_.put(of_step(step + 1));
    auto const all = to_device(
        device_, coefficients_of(step, tables_.width()), {kShardSamples, tables_.width()});
    if (part_.rows() > 0) {
      copy(coefficients_, all.rows(part_.begin, part_.end));
    }
  }

  Device<R> device_;
  HowShards how_;
  BatchPart part_;
  std::vector<TableSpec> specs_;
  ShardedTables<R> tables_;
  Optimizer<R> optimizer_;
  GradientTape<R> tape_;
  BagsOnDevice<R> bags_;
  BagsOnDevice<R> next_bags_;
  Tensor<float, R> coefficients_;
  std::optional<StreamPool<R>> pool_;
};

/// The elements of a table that a rank has.
struct BlockOfTable {
  std::int64_t first_row;
  std::int64_t first_column;
  std::int64_t columns;
};
/// Returns the block that a plan gives a rank, counted among the ranks of the table.
[[nodiscard]] inline BlockOfTable block_of_rank(TableSpec const& table,
                                                TablePlacement const& at,
                                                int rank) {
  if (at.sharding == Sharding::row_wise || at.sharding == Sharding::column_wise) {
    auto const number = std::ranges::find(at.ranks, rank) - at.ranks.begin();
    bool const by_rows = at.sharding == Sharding::row_wise;
    auto const part =
        batch_parts(by_rows ? table.rows : table.width,
                    static_cast<int>(at.ranks.size()))[static_cast<std::size_t>(number)];
    return by_rows ? BlockOfTable{part.begin, 0, table.width}
                   : BlockOfTable{0, part.begin, part.rows()};
  }
  return {0, 0, table.width};
}

/// Trains the parts on the ranks. Elements of a table that several ranks have are compared.
template <Runtime R>
[[nodiscard]] TrainedShards trained_in_parts(int ranks, HowShards const& how) {
  std::mutex mutex;
  auto const specs = specs_of_shards(how);
  std::int64_t columns = 0;
  TrainedShards trained;
  for (auto const& spec : specs) {
    columns += spec.width;
    trained.tables[spec.name].resize(static_cast<std::size_t>(spec.rows * spec.width), -1000);
  }
  trained.pooled.resize(kShardSteps,
                        std::vector<float>(static_cast<std::size_t>(kShardSamples * columns)));
  on_kept_ranks<R>(ranks, [&](Rank<R> const& rank) {
    ShardsOfRank<R> shards(rank, how);
    auto const pooled = shards.train();
    std::lock_guard const guard(mutex);
    auto const part =
        uneven_parts(kShardSamples, rank.size())[static_cast<std::size_t>(rank.rank())];
    for (std::size_t step = 0; step < pooled.size(); ++step) {
      EXPECT_EQ(std::ssize(pooled[step]), part.rows() * columns);
      std::ranges::copy(pooled[step], trained.pooled[step].begin() + part.begin * columns);
    }
    shards.tables().for_each_part([&](std::string const& name, auto const& tensor) {
      auto const number = std::ranges::find(specs, name, &TableSpec::name) - specs.begin();
      auto const& spec = specs[static_cast<std::size_t>(number)];
      auto const block = block_of_rank(
          spec, shards.tables().plan().tables[static_cast<std::size_t>(number)], rank.rank());
      auto const elements = elements_as_floats(tensor);
      auto& whole = trained.tables[name];
      for (std::size_t i = 0; i < elements.size(); ++i) {
        auto const row = block.first_row + static_cast<std::int64_t>(i) / block.columns;
        auto const column = block.first_column + static_cast<std::int64_t>(i) % block.columns;
        auto& place = whole[static_cast<std::size_t>(row * spec.width + column)];
        EXPECT_TRUE(place == -1000 || place == elements[i]) << name << " differs between ranks";
        place = elements[i];
      }
    });
  });
  return trained;
}

inline void expect_near(TrainedShards const& found, TrainedShards const& expected) {
  for (std::size_t step = 0; step < expected.pooled.size(); ++step) {
    for (std::size_t i = 0; i < expected.pooled[step].size(); ++i) {
      ASSERT_NEAR(found.pooled[step][i], expected.pooled[step][i], 2e-5)
          << "step " << step << ", element " << i;
    }
  }
  for (auto const& [name, elements] : expected.tables) {
    // A row of float16 may be rounded to the next number.
    auto const tolerance = name == "halves" ? 2e-3 : 2e-5;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      ASSERT_NEAR(found.tables.at(name)[i], elements[i], tolerance) << name << ", element " << i;
    }
  }
}
inline void expect_equal(TrainedShards const& found, TrainedShards const& expected) {
  for (std::size_t step = 0; step < expected.pooled.size(); ++step) {
    EXPECT_EQ(bits_of(found.pooled[step]), bits_of(expected.pooled[step])) << "step " << step;
  }
  for (auto const& [name, elements] : expected.tables) {
    EXPECT_EQ(bits_of(found.tables.at(name)), bits_of(elements)) << name;
  }
}

/// Compares tables in parts with whole ones: their bits where the sums of gradients have the order
/// of the samples. On CUDA the sums are cut at places that depend on the other rows of a rank.
template <Runtime R>
void expect_as_whole(TrainedShards const& found, TrainedShards const& expected) {
  if (is_by_nccl<R>) {
    expect_near(found, expected);
  } else {
    expect_equal(found, expected);
  }
}

}  // namespace msstream::testing
