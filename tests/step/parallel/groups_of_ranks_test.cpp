// SPDX-License-Identifier: Apache-2.0
// Training on groups of ranks, which World::split() makes: tables in parts within each group, and
// data parallel between groups.
#include "comm/ranks.hpp"
#include "step/parallel/model_in_parts.hpp"
#include "step/parallel/sharded_training.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class GroupsOfRanks : public RanksTest<R> {
 protected:
  void SetUp() override {
    if (most_ranks<R>() < 4) {
      GTEST_SKIP() << R::name << ": needs four devices";
    }
  }
};
TYPED_TEST_SUITE(GroupsOfRanks, RankRuntimes, RuntimeNamesOfRanks);

constexpr std::int64_t kSamplesOfGroups = 12;
constexpr int kStepsOfGroups = 4;

/// Trains tables in parts on the ranks of a group, and a dense weight on all ranks. The groups have
/// equal tables: after each step they take the mean of each part. Returns the elements of the
/// weight and of all tables, which are whole on one rank.
template <Runtime R>
[[nodiscard]] std::vector<float> trained_in_groups(int ranks,
                                                   int ranks_of_group,
                                                   bool is_captured) {
  auto const specs = specs_of_shards({});
  std::vector<float> weights;
  std::map<std::string, std::vector<float>> of_tables;
  std::mutex mutex;
  on_ranks<R>(ranks, [&](Rank<R> const& rank) {
    auto const group = rank.world.split(rank.rank() / ranks_of_group);
    auto const same_part = rank.world.split(rank.rank() % ranks_of_group);
    comm::Communicator<R> const inside(rank.device, group, {.name = "tables"});
    comm::Communicator<R> const between(rank.device, same_part, {.name = "tables"});
    auto const part = batch_parts(kSamplesOfGroups, ranks)[static_cast<std::size_t>(rank.rank())];
    auto const plan = plan_of(specs, {Sharding::table_wise}, group.size());
    ShardedTables<R> const tables(
        specs, inside, {.most_samples = kSamplesOfGroups, .seed = 77}, plan);
    Parameters<R> parameters(rank.device, {.seed = 7});
    auto const weight = parameters.dense("weight", {tables.width(), 1}, init::uniform(-1, 1));
    DataParallel<R> const parallel(parameters, rank.communicator);
    Optimizer<R> optimizer(rank.device, rule_of_shards(ShardRule::sgd));
    optimizer.add(parameters);
    tables.add_to(optimizer);
    BagsOnDevice<R> bags(rank.device, specs, kSamplesOfGroups, part, false);
    auto labels = random_elements<float>(8, kSamplesOfGroups);
    for (auto& label : labels) {
      label = label > 0 ? 1.0F : 0.0F;
    }
    auto const y = to_device(rank.device, labels, {kSamplesOfGroups, 1}).rows(part.begin, part.end);
    GradientTape<R> tape(rank.device);
    auto const step = [&] {
      auto const logits = ops::matmul(tape, tables.lookup(tape, bags.bags()), weight);
      parallel.backward(tape, ops::mean_bce_with_logits(tape, logits, y));
      optimizer.step(tape);
      tape.clear();
      tables.for_each_part([&](std::string const&, auto const& of_table) {
        all_reduce(between, of_table, comm::Reduction::mean);
      });
    };
    std::optional<CapturedStep<R>> captured;
    for (int i = 0; i < kStepsOfGroups; ++i) {
      bags.put(random_bags(specs, kSamplesOfGroups, false, static_cast<std::uint64_t>(i)));
      if (is_captured && !captured) {
        captured.emplace(rank.device, step);
      }
      if (captured) {
        captured->replay();
      } else {
        step();
      }
    }
    std::lock_guard const guard(mutex);
    auto const own = to_host(weight);
    if (weights.empty()) {
      weights = own;
    }
    EXPECT_EQ(bits_of(own), bits_of(weights));
    tables.for_each_part([&](std::string const& name, auto const& of_table) {
      auto const elements = elements_as_floats(of_table);
      auto const [known, is_first] = of_tables.try_emplace(name, elements);
      EXPECT_EQ(bits_of(known->second), bits_of(elements)) << name;  // on both groups
    });
  });
  for (auto const& [name, elements] : of_tables) {
    weights.insert(weights.end(), elements.begin(), elements.end());
  }
  return weights;
}

TYPED_TEST(GroupsOfRanks, tables_in_groups_and_data_parallel_between_train_what_one_rank_trains) {
  auto const expected = trained_in_groups<TypeParam>(1, 1, false);
  for (bool const is_captured : {false, true}) {
    auto const found = trained_in_groups<TypeParam>(4, 2, is_captured);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      // Half floats are rounded in each group.
      ASSERT_NEAR(found[i], expected[i], 2e-3) << "element " << i;
    }
  }
}

TYPED_TEST(GroupsOfRanks, a_group_has_the_bits_that_any_number_of_ranks_has) {
  constexpr std::int64_t kRows = 24;
  auto const trained = [](Rank<TypeParam> const& rank) {
    ModelInParts<TypeParam> model(rank.device, kRows, 0, 0);
    DataParallel<TypeParam> const parallel(
        model.parameters(), rank.communicator, {.reproducible = Reproducible::any_rank_count});
    Optimizer<TypeParam> optimizer(rank.device, rule_in_parts(), clipped());
    optimizer.add(model.parameters());
    GradientTape<TypeParam> tape(rank.device);
    auto losses = losses_of(rank.device, false, [&] {
      auto const loss = parallel.backward_in_parts(tape, [&](int part) {
        return std::optional(model.loss(
            tape, kRows * part / parallel.parts(), kRows * (part + 1) / parallel.parts()));
      });
      optimizer.step(tape);
      tape.clear();
      return loss;
    });
    return TrainedInParts{std::move(losses), model.values()};
  };
  TrainedInParts expected;
  on_ranks<TypeParam>(1, [&](Rank<TypeParam> const& rank) { expected = trained(rank); });
  on_ranks<TypeParam>(4, [&](Rank<TypeParam> const& rank) {
    auto const world = rank.world.split(rank.rank() % 2, {.key = -rank.rank()});
    EXPECT_TRUE(trained({world, rank.device, comm::Communicator<TypeParam>(rank.device, world)}) ==
                expected);
  });
}

}  // namespace
}  // namespace msstream::testing
