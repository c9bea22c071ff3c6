// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "runtime/gate.hpp"
#include "step/parallel/rows_of_bags.hpp"
#include "step/parallel/sharded_tables_state.hpp"
#include "step/parallel/trained_rank_by_rank.hpp"
#include "step/parallel/two_batches.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

template <class R>
class PrefetchRows : public RanksTest<R> {};
TYPED_TEST_SUITE(PrefetchRows, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(PrefetchRows, untouched_rows_ahead_change_no_bit) {
  for (bool const is_fixed : {false, true}) {
    for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3, 4})) {
      for (auto const& plan : plans_of_distinct_rows()) {
        SCOPED_TRACE(std::string(name_of(plan[0])) + ", ranks: " + std::to_string(ranks));
        HowShards how{.shardings = plan,
                      .rule = ShardRule::adam,
                      .is_fixed = is_fixed,
                      .is_largest = true,
                      .sent = SentRows::distinct};
        auto const expected = trained_in_parts<TypeParam>(ranks, how);
        how.is_ahead = true;
        how.rows_ahead = RowsAhead::untouched;
        expect_equal(trained_in_parts<TypeParam>(ranks, how), expected);
      }
    }
  }
}

TYPED_TEST(PrefetchRows, bits_are_equal_for_all_groups_eager_and_captured) {
  for (auto const rows_ahead : {RowsAhead::untouched, RowsAhead::stale}) {
    HowShards how{.shardings = {Sharding::row_wise,
                                Sharding::row_wise,
                                Sharding::table_wise,
                                Sharding::column_wise,
                                Sharding::replicated},
                  .rule = ShardRule::adam,
                  .is_ahead = true,
                  .sent = SentRows::distinct,
                  .rows_ahead = rows_ahead};
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
}

TYPED_TEST(PrefetchRows, stale_rows_are_those_before_the_update) {
  for (auto const& plan : {std::vector{Sharding::table_wise},
                           std::vector{Sharding::row_wise, Sharding::column_wise}}) {
    for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3})) {
      SCOPED_TRACE(std::string(name_of(plan[0])) + ", ranks: " + std::to_string(ranks));
      HowShards how{.shardings = plan,
                    .rule = ShardRule::adam,
                    .is_ahead = true,
                    .sent = SentRows::distinct,
                    .rows_ahead = RowsAhead::stale};
      auto const expected = trained_rank_by_rank<TypeParam>(ranks, how);
      expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(ranks, how), expected);
      how.rows_ahead = RowsAhead::untouched;
      EXPECT_NE(bits_of(trained_in_parts<TypeParam>(ranks, how).pooled[1]),
                bits_of(expected.pooled[1]));
    }
  }
}

template <class R>
class PrefetchBeside : public ::testing::Test {};
TYPED_TEST_SUITE(PrefetchBeside, ThreadRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(PrefetchBeside, untouched_rows_come_while_the_backward_is_held) {
  using R = TypeParam;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    TwoBatches<R> batches(rank, SentRows::distinct);
    auto const& tables = batches.tables;
    auto const& first_values = batches.first_values;
    Gate gate;
    // The queue of the default stream is [gate, backward, update].
    gate.hold(rank.device.default_group().compute());
    auto const next = tables.prefetch_rows(tables.exchange(batches.next_bags.bags()), batches.now);
    auto const come = rank.communicator.group().compute().record();
    batches.train();
    come.synchronize();  // would never return if the rows waited for the update

    auto const& sent = next.body()->distinct->sent;
    auto const& ahead = *next.body()->ahead;
    auto const stride = sent.shape()[1];
    std::size_t untouched = 0;
    for (std::int64_t from = 0; from < 2; ++from) {
      auto const& blocks =
          tables.any().state().layout().ranks[static_cast<std::size_t>(from)].blocks;
      auto const slots = std::ssize(blocks);
      auto const* const here = ahead.split->here.data() + from * stride;
      auto const* const late = ahead.split->late.data() + from * stride;
      auto const* row = ahead.rows.data() + from * ahead.rows.shape()[1];
      for (std::int64_t s = 0; s < slots; ++s) {
        auto const& block = blocks[static_cast<std::size_t>(s)];
        auto const touched = rows_named(batches.now_of_ranks, block);
        std::vector<std::int64_t> positions_here;
        std::vector<std::int64_t> positions_late;
        std::int64_t position = 0;
        for (auto const id : rows_named({batches.own_next}, block)) {
          if (touched.contains(id)) {
            positions_late.push_back(position++);
            continue;
          }
          positions_here.push_back(position++);
          for (std::int64_t c = 0; c < block.columns; ++c, ++row) {
            EXPECT_EQ(*row,
                      first_values[block.table][static_cast<std::size_t>(id * block.columns + c)]);
          }
        }
        auto const positions_of = [&](std::int64_t const* message) {
          auto const* const ids = message + 2 * (slots + 1);
          return std::vector<std::int64_t>(ids + message[s], ids + message[s + 1]);
        };
        EXPECT_EQ(positions_of(here), positions_here) << "from " << from << ", slot " << s;
        EXPECT_EQ(positions_of(late), positions_late) << "from " << from << ", slot " << s;
        untouched += positions_here.size();
      }
    }
    EXPECT_GT(untouched, 4U);
    EXPECT_FALSE(rank.device.default_group().compute().record().query()) << "the update has ended";
    gate.open();
    static_cast<void>(to_host(tables.lookup(no_tape, next)));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
  });
}

TYPED_TEST(PrefetchBeside, what_would_make_rows_stale_is_refused) {
  using R = TypeParam;
  for (auto const sent : {SentRows::pooled, SentRows::distinct}) {
    on_ranks<R>(2, [&](Rank<R> const& rank) {
      auto const specs = specs_of_prefetch();
      auto const plan = plan_of(specs, {Sharding::row_wise}, rank.size());
      ShardedTables<R> const tables(
          specs, rank.communicator, {.most_samples = 1, .sent = sent}, plan);
      ShardedTables<R> const others(specs, rank.communicator, {.most_samples = 1}, plan);
      auto const bags = [&](std::int64_t id) {
        std::vector<std::int64_t> const ids(4, id);
        return ops::TableBags<R>{.ids = to_device(rank.device, ids, {4}), .batch = 1};
      };
      auto const ids_of_others = others.exchange(bags(1));
      auto const now = tables.exchange(bags(1));
      EXPECT_THAT(message_of<std::invalid_argument>(
                      [&] { (void)tables.prefetch_rows(now, ids_of_others); }),
                  HasSubstr("prefetched rows of ids that other tables have exchanged"));
      auto const next = tables.prefetch_rows(tables.exchange(bags(2)), now);
      auto const stale = tables.prefetch_stale_rows(now);
      EXPECT_THAT(message_of<std::invalid_argument>([&] { now.assign(next); }),
                  HasSubstr("ids with prefetched rows assigned to those with no prefetched rows"));
      EXPECT_THAT(message_of<std::invalid_argument>([&] { next.assign(stale); }),
                  HasSubstr("ids with stale rows assigned to those with prefetched rows"));

      GradientTape<R> tape(rank.device);
      auto const train = [&](ShardedIds<R> const& ids) {
        tape.backward(ops::sum(tape, ops::sum(tape, tables.lookup(tape, ids), 0), 0));
        tape.clear();
      };
      train(now);
      (void)tables.lookup(no_tape, next);
      train(tables.exchange(bags(2)));
      EXPECT_THAT(message_of<std::logic_error>([&] { (void)tables.lookup(no_tape, next); }),
                  HasSubstr("prefetched beside other bags, after 2 backwards, of which 1 were"));
      (void)tables.lookup(no_tape, stale);
      comm::barrier(rank.communicator);
      rank.communicator.synchronize();
    });
  }
}

TYPED_TEST(PrefetchBeside, rows_that_an_update_to_come_moves_otherwise_are_refused) {
  using R = TypeParam;
  for (auto const sent : {SentRows::pooled, SentRows::distinct}) {
    on_ranks<R>(2, [&](Rank<R> const& rank) {
      auto const specs = specs_of_prefetch();
      auto const plan = plan_of(specs, {Sharding::row_wise}, rank.size());
      ShardedTables<R> const tables(
          specs, rank.communicator, {.most_samples = 1, .sent = sent}, plan);
      Optimizer<R> optimizer(
          rank.device, {.kind = ops::OptimizerKind::sgd, .learning_rate = 1}, {.micro_batches = 2});
      tables.add_to(optimizer);
      auto const ids_of = [&](std::int64_t id) {
        std::vector<std::int64_t> const ids(4, id);
        return tables.exchange(
            ops::TableBags<R>{.ids = to_device(rank.device, ids, {4}), .batch = 1});
      };
      GradientTape<R> tape(rank.device);
      auto const play_back = [&](ShardedIds<R> const& ids) {
        tape.backward(ops::sum(tape, ops::sum(tape, tables.lookup(tape, ids), 0), 0));
        return optimizer.step(tape);
      };
      auto const first = ids_of(1);
      auto const second = ids_of(2);
      EXPECT_FALSE(play_back(first));
      (void)tables.prefetch_rows(second, first);
      EXPECT_THAT(message_of<std::logic_error>([&] { (void)tables.prefetch_rows(first, second); }),
                  HasSubstr("played back that no update has applied"));
      EXPECT_TRUE(play_back(second));
      tape.clear();
      (void)tables.prefetch_rows(first, second);
      comm::barrier(rank.communicator);
      rank.communicator.synchronize();
    });
  }
}

TYPED_TEST(PrefetchBeside, a_batch_without_an_update_is_forgotten_with_its_tape) {
  using R = TypeParam;
  for (auto const sent : {SentRows::pooled, SentRows::distinct}) {
    on_ranks<R>(2, [&](Rank<R> const& rank) {
      auto const specs = specs_of_prefetch();
      auto const plan = plan_of(specs, {Sharding::row_wise}, rank.size());
      ShardedTables<R> const tables(
          specs, rank.communicator, {.most_samples = 1, .sent = sent}, plan);
      Optimizer<R> optimizer(rank.device, {.kind = ops::OptimizerKind::sgd, .learning_rate = 1});
      tables.add_to(optimizer);
      auto const ids_of = [&](std::int64_t id) {
        std::vector<std::int64_t> const ids(4, id);
        return tables.exchange(
            ops::TableBags<R>{.ids = to_device(rank.device, ids, {4}), .batch = 1});
      };
      auto const play_back = [&](GradientTape<R>& tape, ShardedIds<R> const& ids) {
        tape.backward(ops::sum(tape, ops::sum(tape, tables.lookup(tape, ids), 0), 0));
      };
      auto const first = ids_of(1);
      auto const second = ids_of(2);
      auto const expect_refused = [&] {
        EXPECT_THAT(
            message_of<std::logic_error>([&] { (void)tables.prefetch_rows(first, second); }),
            HasSubstr("played back that no update has applied"));
      };
      GradientTape<R> tape(rank.device);
      play_back(tape, first);
      expect_refused();
      tape.clear();
      (void)tables.prefetch_rows(first, second);
      {
        GradientTape<R> other(rank.device);
        play_back(tape, second);
        play_back(other, first);
        tape.clear();
        expect_refused();
      }
      (void)tables.prefetch_rows(first, second);
      play_back(tape, first);
      expect_refused();
      tape.clear();
      comm::barrier(rank.communicator);
      rank.communicator.synchronize();
    });
  }
}

}  // namespace
}  // namespace msstream::testing
