// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "memory/runtimes.hpp"
#include "step/parallel/sharded_tables_state.hpp"
#include "step/parallel/trained_rank_by_rank.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class DistinctRowsTest : public RanksTest<R> {};
TYPED_TEST_SUITE(DistinctRowsTest, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(DistinctRowsTest, sums_at_home_are_added_in_the_order_of_the_ranks) {
  for (auto const rule : {ShardRule::sgd, ShardRule::adam}) {
    for (bool const is_fixed : {false, true}) {
      for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3, 4})) {
        HowShards how{.rule = rule, .is_fixed = is_fixed, .sent = SentRows::distinct};
        auto const expected = trained_rank_by_rank<TypeParam>(ranks, how);
        for (auto const& plan : plans_of_distinct_rows()) {
          SCOPED_TRACE(std::string(ops::name_of(rule)) + ", " + std::string(name_of(plan[0])) +
                       ", ranks: " + std::to_string(ranks));
          how.shardings = plan;
          expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(ranks, how), expected);
        }
      }
    }
  }
}

TYPED_TEST(DistinctRowsTest, they_train_like_pooled_rows) {
  for (auto const& plan : plans_of_distinct_rows()) {
    HowShards how{.shardings = plan, .rule = ShardRule::rowwise_adagrad};
    auto const expected = trained_in_parts<TypeParam>(3, how);
    how.sent = SentRows::distinct;
    expect_near(trained_in_parts<TypeParam>(3, how), expected);
  }
}

TYPED_TEST(DistinctRowsTest, every_sharding_takes_the_maximum) {
  for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3})) {
    HowShards how{.rule = ShardRule::adam, .is_largest = true, .sent = SentRows::distinct};
    auto const expected = trained_rank_by_rank<TypeParam>(ranks, how);
    for (auto const& plan : plans_of_distinct_rows()) {
      SCOPED_TRACE(std::string(name_of(plan[0])) + ", ranks: " + std::to_string(ranks));
      how.shardings = plan;
      expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(ranks, how), expected);
    }
  }
}

TYPED_TEST(DistinctRowsTest, the_mean_divides_by_the_parts) {
  for (int const parts : {0, 4}) {
    HowShards how{.shardings = {Sharding::row_wise, Sharding::replicated},
                  .scale = parts == 0 ? 0.5F : 0.25F,
                  .sent = SentRows::distinct};
    auto const expected = trained_rank_by_rank<TypeParam>(2, how);
    how.reduction = comm::Reduction::mean;
    how.parts = parts;
    expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(2, how), expected);
  }
}

TYPED_TEST(DistinctRowsTest, bits_are_equal_for_all_groups_eager_captured_and_ahead) {
  HowShards how{.shardings = {Sharding::row_wise,
                              Sharding::row_wise,
                              Sharding::table_wise,
                              Sharding::column_wise,
                              Sharding::replicated},
                .rule = ShardRule::adam,
                .sent = SentRows::distinct};
  auto const expected = trained_in_parts<TypeParam>(3, how);
  for (int const groups : {0, 1, 2, 4}) {
    for (bool const is_captured : {false, true}) {
      for (bool const is_ahead : {false, true}) {
        SCOPED_TRACE(std::to_string(groups) + " groups, captured: " + std::to_string(is_captured) +
                     ", ahead: " + std::to_string(is_ahead));
        how.groups = groups;
        how.is_captured = is_captured;
        how.is_ahead = is_ahead;
        expect_equal(trained_in_parts<TypeParam>(3, how), expected);
      }
    }
  }
}

TYPED_TEST(DistinctRowsTest, ranks_without_any_table_take_part) {
  for (bool const is_captured : {false, true}) {
    HowShards how{.rule = ShardRule::adam,
                  .is_captured = is_captured,
                  .is_on_last = true,
                  .sent = SentRows::distinct};
    auto const expected = trained_rank_by_rank<TypeParam>(3, how);
    expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(3, how), expected);
    how.shardings = {Sharding::table_wise, Sharding::replicated};
    expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(3, how), expected);
  }
}

[[nodiscard]] std::vector<TableSpec> specs_of_distinct_ids() {
  return {{.name = "hot", .rows = 30, .width = 3, .hotness = 8},
          {.name = "cold", .rows = 100, .width = 2, .hotness = 2}};
}

TYPED_TEST(DistinctRowsTest, each_distinct_id_is_sent_once_to_the_rank_that_has_its_row) {
  using R = TypeParam;
  constexpr std::int64_t kSamples = 16;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    auto const specs = specs_of_distinct_ids();
    ShardedTables<R> const tables(specs,
                                  rank.communicator,
                                  {.most_samples = kSamples, .sent = SentRows::distinct},
                                  plan_of(specs, {Sharding::row_wise}, rank.size()));
    BagsOnDevice<R> bags(rank.device, specs, kSamples, {0, kSamples}, false);
    auto const lists =
        random_bags(specs, kSamples, false, 7 + static_cast<std::uint64_t>(rank.rank()));
    bags.put(lists);
    auto const ids = tables.exchange(bags.bags());
    auto const& sent = ids.body()->distinct->sent;
    auto const numbers = to_host(Tensor<std::int64_t, R>(detail::OfKnownType(), sent.any()));
    auto const& layout = tables.any().state().layout();
    for (std::size_t to = 0; to < 2; ++to) {
      auto const* const message = numbers.data() + static_cast<std::int64_t>(to) * sent.shape()[1];
      auto const& blocks = layout.ranks[to].blocks;
      auto const slots = std::ssize(blocks);
      for (std::int64_t s = 0; s < slots; ++s) {
        auto const& block = blocks[static_cast<std::size_t>(s)];
        std::set<std::int64_t> expected;
        for (auto const& bag : lists[block.table]) {
          for (auto const id : bag) {
            if (id >= block.first_row && id < block.first_row + block.rows) {
              expected.insert(id - block.first_row);
            }
          }
        }
        std::vector<std::int64_t> const found(message + 2 * (slots + 1) + message[s],
                                              message + 2 * (slots + 1) + message[s + 1]);
        EXPECT_EQ(found, std::vector<std::int64_t>(expected.begin(), expected.end()))
            << "table " << block.table << " to rank " << to;
      }
    }
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
  });
}

TYPED_TEST(DistinctRowsTest, more_distinct_rows_than_there_is_room_for_are_reported_by_table) {
  using R = TypeParam;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    auto specs = specs_of_distinct_ids();
    specs[0].most_distinct = 5;
    ShardedTables<R> const tables(specs,
                                  rank.communicator,
                                  {.most_samples = 2, .sent = SentRows::distinct},
                                  plan_of(specs, {Sharding::row_wise}, rank.size()));
    auto const looked_up = [&](std::vector<std::int64_t> const& ids) {
      ops::TableBags<R> const bags{.ids = to_device(rank.device, ids, {std::ssize(ids)}),
                                   .batch = 2};
      return to_host(tables.lookup(no_tape, bags));
    };
    std::vector<std::int64_t> ids{1, 1, 2, 2, 3, 3, 29, 29, 1, 1, 2, 2, 3, 3, 29, 20, 99, 0, 0, 99};
    auto const expected = looked_up(ids);
    auto more = ids;
    more[0] = 28;
    EXPECT_THAT(message_of<std::out_of_range>([&] { static_cast<void>(looked_up(more)); }),
                ::testing::AllOf(::testing::HasSubstr("table 'hot'"),
                                 ::testing::HasSubstr("TableSpec::most_distinct"),
                                 ::testing::HasSubstr("6 distinct rows; expected at most 5")));
    // The ranks meet before they go on, because one may have thrown for the other's report.
    EXPECT_EQ(bits_of(looked_up(ids)), bits_of(expected));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
  });
}

TYPED_TEST(DistinctRowsTest, two_lookups_of_one_step_are_pooled_one_after_the_other) {
  using R = TypeParam;
  constexpr std::int64_t kSamples = 9;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    auto specs = specs_of_distinct_ids();
    specs[1].pooling = ops::Pooling::max;
    auto const plan = plan_of(specs, {Sharding::row_wise, Sharding::column_wise}, rank.size());
    auto const trained = [&](SentRows sent) {
      ShardedTables<R> const tables(
          specs, rank.communicator, {.most_samples = kSamples, .sent = sent}, plan);
      Optimizer<R> optimizer(rank.device, rule_of_shards(ShardRule::sgd));
      tables.add_to(optimizer);
      GradientTape<R> tape(rank.device);
      std::vector<Tensor<float, R>> pooled;
      std::vector<BagsOnDevice<R>> bags;
      for (std::uint64_t half = 0; half < 2; ++half) {
        bags.emplace_back(rank.device, specs, kSamples, BatchPart{0, kSamples}, false);
        bags.back().put(random_bags(specs, kSamples, false, 30 + half));
        pooled.push_back(tables.lookup(tape, bags.back().bags()));
      }
      auto const both = ops::multiply(tape, pooled[0], pooled[1]);
      tape.backward(ops::sum(tape, ops::sum(tape, both, 0), 0));
      optimizer.step(tape);
      auto found = to_host(both);
      tables.for_each_part([&](std::string const&, auto const& part) {
        auto const elements = elements_as_floats(part);
        found.insert(found.end(), elements.begin(), elements.end());
      });
      return found;
    };
    auto const expected = trained(SentRows::pooled);
    auto const found = trained(SentRows::distinct);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-5) << "element " << i;
    }
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
  });
}

/// One rank, on every runtime.
template <class R>
class DistinctRowsOfOneRank : public RuntimeTest<R> {};
TYPED_TEST_SUITE(DistinctRowsOfOneRank, PlainRuntimes, RuntimeNames);

TYPED_TEST(DistinctRowsOfOneRank, tables_train_as_whole_ones) {
  for (bool const is_captured : {false, true}) {
    for (bool const is_largest : {false, true}) {
      HowShards how{.rule = ShardRule::adam,
                    .is_captured = is_captured,
                    .is_largest = is_largest,
                    .sent = SentRows::distinct};
      auto const expected = trained_whole<TypeParam>(how);
      for (auto const& plan : plans_of_distinct_rows()) {
        SCOPED_TRACE(name_of(plan[0]));
        how.shardings = plan;
        expect_near(trained_in_parts<TypeParam>(1, how), expected);
      }
    }
  }
}

}  // namespace
}  // namespace msstream::testing
