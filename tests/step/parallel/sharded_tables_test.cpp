// SPDX-License-Identifier: Apache-2.0
#include "memory/runtimes.hpp"
#include "step/initial_values.hpp"
#include "step/parallel/sharded_training.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class ShardedTablesTest : public RanksTest<R> {};
TYPED_TEST_SUITE(ShardedTablesTest, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(ShardedTablesTest, whole_tables_and_columns_have_the_bits_of_one_rank) {
  std::vector<std::vector<Sharding>> const plans{
      {Sharding::table_wise},
      {Sharding::column_wise},
      {Sharding::replicated},
      {Sharding::column_wise, Sharding::table_wise, Sharding::replicated}};
  for (auto const rule : {ShardRule::sgd, ShardRule::adam}) {
    for (bool const is_fixed : {false, true}) {
      HowShards how{.rule = rule, .is_fixed = is_fixed};
      auto const expected = trained_whole<TypeParam>(how);
      for (auto const& plan : plans) {
        how.shardings = plan;
        for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3, 4})) {
          SCOPED_TRACE(std::string(ops::name_of(rule)) + ", " + std::string(name_of(plan[0])) +
                       ", ranks: " + std::to_string(ranks));
          expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(ranks, how), expected);
        }
      }
    }
  }
}

TYPED_TEST(ShardedTablesTest, rows_on_several_ranks_are_those_of_one_rank) {
  for (auto const rule : {ShardRule::sgd, ShardRule::rowwise_adagrad, ShardRule::adam}) {
    for (bool const is_fixed : {false, true}) {
      HowShards how{.rule = rule, .is_fixed = is_fixed};
      auto const expected = trained_whole<TypeParam>(how);
      for (auto const& plan : {std::vector{Sharding::row_wise},
                               std::vector{Sharding::row_wise,
                                           Sharding::table_wise,
                                           Sharding::row_wise,
                                           Sharding::replicated}}) {
        how.shardings = plan;
        for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3, 4})) {
          SCOPED_TRACE(std::string(ops::name_of(rule)) + ", ranks: " + std::to_string(ranks));
          auto const found = trained_in_parts<TypeParam>(ranks, how);
          expect_near(found, expected);
          // The gradients of sums do not depend on the order in which ranks add.
          if (!is_by_nccl<TypeParam>) {
            EXPECT_EQ(bits_of(found.tables.at("sums")), bits_of(expected.tables.at("sums")));
          }
        }
      }
    }
  }
}

TYPED_TEST(ShardedTablesTest, bits_are_equal_for_all_groups_eager_and_captured) {
  std::vector const mixed{Sharding::row_wise,
                          Sharding::row_wise,
                          Sharding::table_wise,
                          Sharding::column_wise,
                          Sharding::replicated};
  HowShards how{.shardings = mixed, .rule = ShardRule::adam};
  auto const expected = trained_in_parts<TypeParam>(3, how);
  for (int const groups : {0, 1, 2, 4}) {
    for (bool const is_captured : {false, true}) {
      SCOPED_TRACE(std::to_string(groups) + " groups, captured: " + std::to_string(is_captured));
      how.groups = groups;
      how.is_captured = is_captured;
      expect_equal(trained_in_parts<TypeParam>(3, how), expected);
    }
  }
}

TYPED_TEST(ShardedTablesTest, ids_exchanged_a_step_ahead_give_the_same_bits) {
  std::vector const mixed{
      Sharding::table_wise, Sharding::row_wise, Sharding::replicated, Sharding::column_wise};
  for (int const groups : {0, 2}) {
    HowShards how{.shardings = mixed, .rule = ShardRule::adam, .groups = groups};
    auto const expected = trained_in_parts<TypeParam>(3, how);
    how.is_ahead = true;
    for (bool const is_captured : {false, true}) {
      how.is_captured = is_captured;
      expect_equal(trained_in_parts<TypeParam>(3, how), expected);
    }
  }
}

TYPED_TEST(ShardedTablesTest, dense_parameters_train_beside_tables_in_parts) {
  using R = TypeParam;
  auto const trained = [](int ranks, bool is_captured) {
    std::vector<float> weights;
    std::mutex mutex;
    on_ranks<R>(ranks, [&](Rank<R> const& rank) {
      auto const specs = specs_of_shards({});
      auto const part =
          batch_parts(kShardSamples, rank.size())[static_cast<std::size_t>(rank.rank())];
      ShardedTables<R> const tables(
          specs,
          rank.communicator,
          {.most_samples = kShardSamples, .seed = 77},
          plan_of(specs, {Sharding::row_wise, Sharding::table_wise}, rank.size()));
      Parameters<R> parameters(rank.device, {.seed = 7});
      auto const weight = parameters.dense("weight", {tables.width(), 1}, init::uniform(-1, 1));
      DataParallel<R> const parallel(parameters, rank.communicator, {.bucket_bytes = 1});
      Optimizer<R> optimizer(rank.device, rule_of_shards(ShardRule::adam));
      optimizer.add(parameters);
      tables.add_to(optimizer);
      GradientTape<R> tape(rank.device);
      BagsOnDevice<R> bags(rank.device, specs, kShardSamples, part, false);
      bags.put(random_bags(specs, kShardSamples, false, 3));
      auto const labels = to_device(rank.device, coefficients_of(0, 1), {kShardSamples, 1})
                              .rows(part.begin, part.end);
      auto const samples = rank.tensor(std::vector<float>{static_cast<float>(part.rows())});
      auto const step = [&] {
        auto const logits = ops::matmul(tape, tables.lookup(tape, bags.bags()), weight);
        auto const loss = ops::mse_loss(tape, logits, labels);
        parallel.backward(tape, parallel.weighted(tape, loss, samples));
        optimizer.step(tape);
        tape.clear();
      };
      std::optional<CapturedStep<R>> captured;
      if (is_captured) {
        captured.emplace(rank.device, step);
      }
      for (int i = 0; i < 5; ++i) {
        if (captured) {
          captured->replay();
        } else {
          step();
        }
      }
      auto own = to_host(weight);
      tables.for_each_part([&](std::string const& name, auto const& table) {
        if (name == "means") {  // table_wise
          auto const elements = elements_as_floats(table);
          std::lock_guard const guard(mutex);
          weights.insert(weights.end(), elements.begin(), elements.end());
        }
      });
      comm::barrier(rank.communicator);
      rank.communicator.synchronize();
      std::lock_guard const guard(mutex);
      if (rank.rank() == 0) {
        weights.insert(weights.end(), own.begin(), own.end());
      }
    });
    return weights;
  };
  auto const expected = trained(1, false);
  for (int const ranks : numbers_of_ranks<TypeParam>({2, 3})) {
    auto const eager = trained(ranks, false);
    ASSERT_EQ(eager.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(eager[i], expected[i], 1e-5) << "element " << i;
    }
    if (!is_by_nccl<R>) {
      EXPECT_EQ(bits_of(trained(ranks, true)), bits_of(eager));
    }
  }
}

TYPED_TEST(ShardedTablesTest, ranks_without_any_table_take_part) {
  for (bool const is_captured : {false, true}) {
    HowShards how{.rule = ShardRule::adam, .is_captured = is_captured, .is_on_last = true};
    auto const expected = trained_whole<TypeParam>(how);
    expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(3, how), expected);
    how.shardings = {Sharding::table_wise, Sharding::replicated};
    expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(3, how), expected);
  }
}

/// One rank, on every runtime.
template <class R>
class ShardedTablesOfOneRank : public RuntimeTest<R> {};
TYPED_TEST_SUITE(ShardedTablesOfOneRank, PlainRuntimes, RuntimeNames);

TYPED_TEST(ShardedTablesOfOneRank, tables_have_the_bits_of_whole_ones) {
  for (bool const is_captured : {false, true}) {
    HowShards how{.rule = ShardRule::adam, .is_captured = is_captured};
    auto const expected = trained_whole<TypeParam>(how);
    for (auto const sharding :
         {Sharding::table_wise, Sharding::row_wise, Sharding::column_wise, Sharding::replicated}) {
      SCOPED_TRACE(name_of(sharding));
      how.shardings = {sharding};
      auto const found = trained_in_parts<TypeParam>(1, how);
      if (sharding == Sharding::row_wise) {
        expect_near(found, expected);
      } else {
        expect_as_whole<TypeParam>(found, expected);
      }
    }
  }
}

TYPED_TEST(ShardedTablesOfOneRank, blocks_have_the_first_values_of_the_whole) {
  using R = TypeParam;
  constexpr std::int64_t kWholeRows = 37;
  constexpr std::int64_t kWholeColumns = 7;
  Device<R> const device;
  for (auto const& initializer :
       {init::uniform(-1, 1), init::truncated_normal(), init::xavier_normal(), init::ones()}) {
    auto const filled = [&](Shape const& shape, ops::detail::MatrixBlock const& block) {
      Tensor<float, R> const tensor(device, shape);
      fill_bytes(tensor, 0xFF);
      detail::fill_with_initial_values(tensor.any(),
                                       {kWholeRows, kWholeColumns},
                                       block,
                                       initializer,
                                       {3, "table"},
                                       "table",
                                       std::source_location::current());
      return to_host(tensor);
    };
    auto const whole = filled({kWholeRows, kWholeColumns}, {});
    for (auto const& [first_row, rows, first_column, columns] :
         std::vector<std::array<std::int64_t, 4>>{
             {0, 37, 0, 7}, {5, 9, 0, 7}, {0, 37, 3, 2}, {36, 1, 6, 1}, {11, 20, 1, 5}}) {
      std::vector<float> expected;
      for (auto row = first_row; row < first_row + rows; ++row) {
        auto const begin = whole.begin() + row * kWholeColumns + first_column;
        expected.insert(expected.end(), begin, begin + columns);
      }
      EXPECT_EQ(bits_of(filled({rows, columns}, {first_row, first_column, kWholeColumns})),
                bits_of(expected));
    }
  }
}

TYPED_TEST(ShardedTablesTest, gradients_are_averaged_over_the_ranks) {
  auto const expected = trained_whole<TypeParam>({.scale = 0.25F});
  if (most_ranks<TypeParam>() < 4) {
    GTEST_SKIP() << "needs 4 ranks";
  }
  for (auto const sharding : {Sharding::table_wise, Sharding::replicated}) {
    expect_as_whole<TypeParam>(
        trained_in_parts<TypeParam>(4,
                                    {.shardings = {sharding}, .reduction = comm::Reduction::mean}),
        expected);
  }
}

TYPED_TEST(ShardedTablesTest, gradients_are_averaged_over_the_parts_of_a_batch) {
  constexpr int kParts = 4;
  auto const expected = trained_whole<TypeParam>({.scale = 1.0F / kParts});
  for (int const ranks : numbers_of_ranks<TypeParam>({1, 2})) {
    expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(ranks,
                                                           {.shardings = {Sharding::table_wise},
                                                            .reduction = comm::Reduction::mean,
                                                            .parts = kParts}),
                               expected);
  }
}

TYPED_TEST(ShardedTablesTest, maxima_have_the_bits_of_one_rank) {
  for (bool const is_fixed : {false, true}) {
    HowShards how{.is_fixed = is_fixed, .is_largest = true};
    auto const expected = trained_whole<TypeParam>(how);
    for (auto const& plan : {std::vector{Sharding::table_wise},
                             std::vector{Sharding::column_wise},
                             std::vector{Sharding::column_wise,
                                         Sharding::table_wise,
                                         Sharding::replicated,
                                         Sharding::replicated,
                                         Sharding::column_wise}}) {
      how.shardings = plan;
      expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(3, how), expected);
    }
  }
}

}  // namespace
}  // namespace msstream::testing
