// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "embedding/split_slot.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"
#include "step/parallel/rows_of_bags.hpp"
#include "step/parallel/sharded_tables_state.hpp"
#include "step/parallel/sharded_training.hpp"
#include "step/parallel/two_batches.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/record_step.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

/// Plans in which the first two tables may take the maximum come last.
[[nodiscard]] std::vector<std::vector<Sharding>> plans_of_pooled_rows() {
  return {{Sharding::row_wise},
          {Sharding::replicated},
          {Sharding::row_wise, Sharding::replicated, Sharding::table_wise, Sharding::column_wise},
          {Sharding::table_wise},
          {Sharding::column_wise},
          {Sharding::table_wise, Sharding::column_wise, Sharding::row_wise, Sharding::replicated}};
}
constexpr std::size_t kFirstPlanOfMaxima = 3;

template <class R>
class PooledAheadTest : public RanksTest<R> {};
TYPED_TEST_SUITE(PooledAheadTest, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(PooledAheadTest, untouched_bags_ahead_change_no_bit) {
  auto const plans = plans_of_pooled_rows();
  for (std::size_t p = 0; p < plans.size(); ++p) {
    for (int const choice : {0, 1, 2, 3}) {
      for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3, 4})) {
        // Tables of few rows have nearly all of them in both batches, larger ones do not.
        HowShards how{.shardings = plans[p],
                      .rule = ShardRule::adam,
                      .is_fixed = (choice & 1) != 0,
                      .is_largest = p >= kFirstPlanOfMaxima,
                      .rows_times = (choice & 2) != 0 ? 8 : 1};
        SCOPED_TRACE("plan " + std::to_string(p) + ", choice " + std::to_string(choice) +
                     ", ranks: " + std::to_string(ranks));
        auto const expected = trained_in_parts<TypeParam>(ranks, how);
        how.is_ahead = true;
        how.rows_ahead = RowsAhead::untouched;
        expect_equal(trained_in_parts<TypeParam>(ranks, how), expected);
      }
    }
  }
}

TYPED_TEST(PooledAheadTest, ranks_without_any_block_take_part) {
  for (auto const second : {Sharding::table_wise, Sharding::replicated}) {
    HowShards how{.shardings = {Sharding::table_wise, second},
                  .rule = ShardRule::adam,
                  .is_on_last = true,
                  .is_largest = second == Sharding::table_wise,
                  .rows_times = 4};
    auto const expected = trained_in_parts<TypeParam>(3, how);
    how.is_ahead = true;
    for (bool const is_captured : {false, true}) {
      how.is_captured = is_captured;
      how.rows_ahead = RowsAhead::untouched;
      expect_equal(trained_in_parts<TypeParam>(3, how), expected);
      if (second == Sharding::table_wise) {
        how.rows_ahead = RowsAhead::stale;
        expect_as_whole<TypeParam>(trained_in_parts<TypeParam>(3, how),
                                   trained_whole<TypeParam>(how));
      }
    }
  }
}

TYPED_TEST(PooledAheadTest, bits_are_equal_for_all_groups_eager_and_captured) {
  for (auto const rows_ahead : {RowsAhead::untouched, RowsAhead::stale}) {
    HowShards how{.shardings = {Sharding::table_wise,
                                Sharding::column_wise,
                                Sharding::row_wise,
                                Sharding::row_wise,
                                Sharding::replicated},
                  .rule = ShardRule::adam,
                  .is_ahead = true,
                  .is_largest = true,
                  .rows_ahead = rows_ahead,
                  .rows_times = 4};
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

TYPED_TEST(PooledAheadTest, stale_rows_are_those_before_the_update) {
  for (auto const& plan : plans_of_pooled_rows()) {
    // Rows of replicated tables are never stale.
    if (std::ranges::find(plan, Sharding::replicated) != plan.end()) {
      continue;
    }
    for (bool const is_fixed : {false, true}) {
      for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3, 4})) {
        SCOPED_TRACE(std::string(name_of(plan[0])) + ", ranks: " + std::to_string(ranks));
        bool const is_whole = plan[0] != Sharding::row_wise;
        HowShards how{.shardings = plan,
                      .rule = ShardRule::adam,
                      .is_fixed = is_fixed,
                      .is_ahead = true,
                      .is_largest = is_whole,
                      .rows_ahead = RowsAhead::stale};
        auto const expected = trained_whole<TypeParam>(how);
        auto const found = trained_in_parts<TypeParam>(ranks, how);
        is_whole ? expect_as_whole<TypeParam>(found, expected) : expect_near(found, expected);
        how.rows_ahead = RowsAhead::untouched;
        EXPECT_NE(bits_of(trained_in_parts<TypeParam>(ranks, how).pooled[1]),
                  bits_of(found.pooled[1]));
      }
    }
  }
}

TYPED_TEST(PooledAheadTest, replicated_tables_are_never_stale) {
  HowShards how{.shardings = {Sharding::replicated}, .rule = ShardRule::adam};
  auto const expected = trained_in_parts<TypeParam>(2, how);
  how.is_ahead = true;
  how.rows_ahead = RowsAhead::stale;
  expect_equal(trained_in_parts<TypeParam>(2, how), expected);
}

/// One rank, on every runtime.
template <class R>
class PooledAheadOfOneRank : public RuntimeTest<R> {};
TYPED_TEST_SUITE(PooledAheadOfOneRank, PlainRuntimes, RuntimeNames);

TYPED_TEST(PooledAheadOfOneRank, rows_ahead_have_the_bits_of_whole_tables) {
  for (auto const rows_ahead : {RowsAhead::untouched, RowsAhead::stale}) {
    for (int const choice : {0, 1, 2, 3}) {
      SCOPED_TRACE(choice);
      HowShards how{.shardings = {Sharding::table_wise, Sharding::column_wise, Sharding::row_wise},
                    .rule = ShardRule::rowwise_adagrad,
                    .is_fixed = (choice & 1) != 0,
                    .is_captured = (choice & 2) != 0,
                    .is_ahead = true,
                    .is_largest = true,
                    .rows_ahead = rows_ahead,
                    .rows_times = 4};
      expect_near(trained_in_parts<TypeParam>(1, how), trained_whole<TypeParam>(how));
    }
  }
}

template <class R>
class PooledBeside : public ::testing::Test {};
TYPED_TEST_SUITE(PooledBeside, ThreadRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(PooledBeside, rows_go_behind_the_gradients_of_the_batch_before) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    TwoBatches<TypeParam> batches(rank, SentRows::pooled);
    auto const& tables = batches.tables;
    auto const trace = record_step(rank.device, [&] {
      auto const next =
          tables.prefetch_rows(tables.exchange(batches.next_bags.bags()), batches.now);
      batches.train();
    });
    std::vector<std::size_t> bytes;
    for (auto const& operation : trace.operations()) {
      if (operation.collective) {
        bytes.push_back(operation.collective->bytes);
      }
    }
    auto const& layout = tables.any().state().layout();
    auto const of_floats = [&](std::int64_t for_rank) {
      return static_cast<std::size_t>(rank.size() * for_rank) * sizeof(float);
    };
    EXPECT_THAT(
        bytes,
        ::testing::ElementsAre(::testing::_,  // ids
                               of_floats(TwoBatches<TypeParam>::kSamples * layout.widest_gradient),
                               of_floats(layout.early_stride)));
  });
}

TYPED_TEST(PooledBeside, ids_are_grouped_beside_what_follows_the_lookup) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    TwoBatches<TypeParam> batches(rank, SentRows::pooled);
    auto const& tables = batches.tables;
    batches.train();
    batches.tape.clear();
    auto const trace = record_step(rank.device, [&] {
      auto const pooled = tables.lookup(batches.tape, tables.exchange(batches.next_bags.bags()));
      batches.tape.backward(ops::sum(batches.tape, ops::sum(batches.tape, pooled, 0), 0));
      batches.optimizer.step(batches.tape);
    });
    std::vector<std::string> streams_that_group;
    std::size_t updates = 0;
    for (auto const& operation : trace.operations()) {
      if (operation.name.ends_with("embedding_tables_places")) {
        streams_that_group.push_back(trace.streams()[operation.stream].name);
      }
      updates += operation.name.ends_with("update_tables") ? 1 : 0;
      EXPECT_FALSE(operation.name.ends_with("embedding_tables_gradient")) << operation.name;
    }
    EXPECT_EQ(updates, 1U) << "sums and applies the gradients at once";
    auto const& layout = tables.any().state().layout();
    auto const width = layout.ranks[static_cast<std::size_t>(rank.rank())].width;
    if (width == layout.widest_gradient) {  // so on one of the ranks
      EXPECT_THAT(streams_that_group, ::testing::ElementsAre(::testing::HasSubstr("ahead of")));
    }
  });
}

TYPED_TEST(PooledBeside, untouched_bags_come_while_the_update_is_held) {
  using R = TypeParam;
  constexpr auto kSamples = TwoBatches<R>::kSamples;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    TwoBatches<R> batches(rank, SentRows::pooled);
    auto const& tables = batches.tables;
    auto const& first_values = batches.first_values;
    Gate gate;
    auto const next = tables.prefetch_rows(tables.exchange(batches.next_bags.bags()), batches.now);
    batches.play_back();
    gate.hold(rank.device.default_group().compute());
    batches.optimizer.step(batches.tape);
    auto const come = rank.communicator.group().compute().record();
    come.synchronize();  // would never return if the rows waited for the update

    auto const& ahead = *next.body()->pooled_ahead;
    std::size_t early = 0;
    std::size_t late = 0;
    std::size_t empty = 0;
    for (std::int64_t from = 0; from < 2; ++from) {
      auto const& blocks =
          tables.any().state().layout().ranks[static_cast<std::size_t>(from)].blocks;
      auto const bags_of_message = std::ssize(blocks) * kSamples;
      auto const* const places = ahead.rows.data() + from * ahead.rows.shape()[1];
      auto const* row = places + bags_of_message;
      std::array<std::int64_t, 2> elements{};  // of the early message, and of the late one
      for (std::int64_t i = 0; i < bags_of_message; ++i) {
        auto const& block = blocks[static_cast<std::size_t>(i / kSamples)];
        auto const touched = rows_named(batches.now_of_ranks, block);
        std::vector<std::int64_t> ids;
        for (auto const id :
             batches.own_next[block.table][static_cast<std::size_t>(i % kSamples)]) {
          if (id >= block.first_row && id < block.first_row + block.rows) {
            ids.push_back(id);
          }
        }
        auto const place = ops::kernels::RowPlace::of_float(places[i]);
        ASSERT_EQ(place.has_row(), !ids.empty()) << "from " << from << ", bag " << i;
        if (ids.empty()) {
          ++empty;
          continue;
        }
        bool const is_late =
            std::ranges::any_of(ids, [&](auto const id) { return touched.contains(id); });
        EXPECT_EQ(place.is_late(), is_late);
        EXPECT_EQ(place.element(), elements[is_late ? 1 : 0]) << "from " << from << ", bag " << i;
        elements[is_late ? 1 : 0] += block.columns;
        ++(is_late ? late : early);
        for (std::int64_t c = 0; c < block.columns && !is_late; ++c, ++row) {
          float sum = 0;
          for (auto const id : ids) {
            sum += first_values[block.table][static_cast<std::size_t>(id * block.columns + c)];
          }
          EXPECT_FLOAT_EQ(*row, sum) << "from " << from << ", bag " << i;
        }
      }
    }
    EXPECT_GT(early, 6U);
    EXPECT_GT(late, 6U);
    EXPECT_GT(empty, 0U);
    EXPECT_FALSE(rank.device.default_group().compute().record().query()) << "the update has ended";
    gate.open();
    static_cast<void>(to_host(tables.lookup(no_tape, next)));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
  });
}

TYPED_TEST(PooledBeside, stale_bags_come_while_the_backward_is_held) {
  using R = TypeParam;
  constexpr std::int64_t kSamples = 6;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    auto const specs = specs_of_prefetch();
    ShardedTables<R> const tables(specs,
                                  rank.communicator,
                                  {.most_samples = kSamples},
                                  plan_of(specs, {Sharding::row_wise}, rank.size()));
    Optimizer<R> optimizer(rank.device, rule_of_shards(ShardRule::sgd));
    tables.add_to(optimizer);
    GradientTape<R> tape(rank.device);
    BagsOnDevice<R> bags(rank.device, specs, kSamples, {0, kSamples}, true);
    bags.put(random_bags(specs, kSamples, true, 3));
    auto const now = tables.exchange(bags.bags());
    auto const pooled = tables.lookup(tape, now);
    auto const before = to_host(pooled);
    rank.communicator.synchronize();
    Gate gate;
    gate.hold(rank.device.default_group().compute());
    auto const next = tables.prefetch_stale_rows(now);
    auto const come = rank.communicator.group().compute().record();
    tape.backward(ops::sum(tape, ops::sum(tape, pooled, 0), 0));
    optimizer.step(tape);
    come.synchronize();
    gate.open();
    EXPECT_EQ(bits_of(to_host(tables.lookup(no_tape, next))), bits_of(before));
    EXPECT_NE(bits_of(to_host(tables.lookup(no_tape, now))), bits_of(before));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
  });
}

TYPED_TEST(PooledBeside, messages_of_too_many_floats_are_refused) {
  using R = TypeParam;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    constexpr std::int64_t kWidth = std::int64_t{1} << 19U;
    ShardedTables<R> const tables(
        {{.name = "wide", .rows = 1, .width = kWidth}}, rank.communicator, {.most_samples = 2048});
    auto const ids = tables.exchange(
        ops::TableBags<R>{.ids = rank.tensor(std::vector<std::int64_t>{0}), .batch = 1});
    EXPECT_THAT(
        message_of<std::invalid_argument>([&] { (void)tables.prefetch_rows(ids, ids); }),
        ::testing::HasSubstr("messages of 1073743872 floats to 2 ranks, with most_samples 2048"));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
  });
}

}  // namespace
}  // namespace msstream::testing
