// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"
#include "step/parallel/sharded_bags.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

[[nodiscard]] std::vector<TableSpec> two_specs() {
  return {{.name = "users", .rows = 6, .width = 2, .hotness = 2},
          {.name = "items", .rows = 3, .width = 3}};
}

template <class R>
class ShardedTablesInput : public RanksTest<R> {};
TYPED_TEST_SUITE(ShardedTablesInput, RankRuntimes, RuntimeNamesOfRanks);

TEST(TablePlans, wrong_tables_are_refused_by_name) {
  struct Wrong {
    std::function<void(std::vector<TableSpec>&)> change;
    std::string message;
  };
  std::vector<Wrong> const wrongs{
      {[](auto& specs) { specs.clear(); }, "0 tables; expected at least one"},
      {[](auto& specs) { specs[1].name = ""; }, "table 1 has an empty name"},
      {[](auto& specs) { specs[1].name = "users"; }, "two tables have the name 'users'"},
      {[](auto& specs) { specs[1].name = "item*"; }, "table 'item*': expected a name in UTF-8"},
      {[](auto& specs) { specs[1].name = "\xFF"; }, "expected a name in UTF-8, without * and ?"},
      {[](auto& specs) { specs[1].rows = 0; }, "table 'items': 0 rows of width 3"},
      {[](auto& specs) { specs[0].width = -1; }, "table 'users': 6 rows of width -1"},
      {[](auto& specs) { specs[0].hotness = 0; }, "table 'users': a hotness of 0"},
      {[](auto& specs) { specs[0].hotness = 3'000'000'000; }, "expected 1 to 2147483647"},
      {[](auto& specs) { specs[1].most_distinct = -1; },
       "table 'items': at most -1 distinct rows; expected at least 1, or 0"},
      {[](auto& specs) { specs[0].pooling = ops::Pooling::none; }, "'users': Pooling::none"},
      {[](auto& specs) { specs[0].dtype = DType::int32; }, "table 'users': elements of int32"},
      {[](auto& specs) { specs[1].default_id = 3; },
       "'items': a default id of 3; expected 0 to 2"}};
  for (auto const& wrong : wrongs) {
    auto specs = two_specs();
    wrong.change(specs);
    EXPECT_THAT(message_of<std::invalid_argument>([&] { require_tables(specs); }),
                HasSubstr(wrong.message));
  }
}

TEST(TablePlans, plans_that_do_not_fit_are_refused_by_table) {
  struct Wrong {
    std::function<void(TablePlan&, std::vector<TableSpec>&)> change;
    std::string message;
  };
  using Specs = std::vector<TableSpec>;
  std::vector<Wrong> const wrongs{
      {[](auto& plan, Specs&) { plan.tables.pop_back(); }, "a plan of 1 tables for 2 tables"},
      {[](auto& plan, Specs&) { plan.ranks = 0; }, "a plan for 0 ranks"},
      {[](auto& plan, Specs&) { std::swap(plan.tables[0], plan.tables[1]); },
       "table 'items' in the place of 'users'"},
      {[](auto& plan, Specs&) { plan.tables[0].ranks = {4}; },
       "table 'users', table_wise: rank 4; expected ranks in [0, 4)"},
      {[](auto& plan, Specs&) {
         plan.tables[0].ranks = {0, 1};
       },
       "table 'users', table_wise: 2 ranks; expected one"},
      {[](auto& plan, Specs&) {
         plan.tables[1].ranks = {0, 2, 0};
       },
       "table 'items', row_wise: a rank occurs twice among [0, 2, 0]"},
      {[](auto& plan, Specs&) { plan.tables[1].ranks = {}; },
       "'items', row_wise: 0 ranks for 3 rows"},
      {[](auto& plan, Specs&) {
         plan.tables[1].ranks = {0, 1, 2, 3};
       },
       "table 'items', row_wise: 4 ranks for 3 rows"},
      {[](auto& plan, Specs&) {
         plan.tables[0] = {"users", Sharding::column_wise, {0, 1, 2}};
       },
       "table 'users', column_wise: 3 ranks for 2 columns"},
      {[](auto& plan, Specs&) {
         plan.tables[0] = {"users", Sharding::replicated, {0, 1}};
       },
       "table 'users', replicated: 2 ranks; expected none"},
      {[](auto&, Specs& specs) { specs[1].pooling = ops::Pooling::max; },
       "table 'items', row_wise: Pooling::max; expected table_wise or column_wise"}};
  for (auto const& wrong : wrongs) {
    auto specs = two_specs();
    TablePlan plan{4,
                   {{"users", Sharding::table_wise, {1}}, {"items", Sharding::row_wise, {0, 2}}}};
    wrong.change(plan, specs);
    EXPECT_THAT(message_of<std::invalid_argument>([&] { require_plan(specs, plan); }),
                HasSubstr(wrong.message));
  }
  auto specs = two_specs();
  specs[1].pooling = ops::Pooling::max;
  TablePlan const plan{
      4, {{"users", Sharding::table_wise, {1}}, {"items", Sharding::row_wise, {0, 2}}}};
  EXPECT_NO_THROW(require_plan(specs, plan, SentRows::distinct));
  EXPECT_NO_THROW((void)describe_plan(specs, plan, {.sent = SentRows::distinct}));
}

TYPED_TEST(ShardedTablesInput, ranks_that_differ_all_get_the_first_difference) {
  using R = TypeParam;
  struct Difference {
    std::function<void(std::vector<TableSpec>&, ShardedTablesOptions&, TablePlan&)> change;
    std::string message;
  };
  std::vector<Difference> const differences{
      {[](auto& specs, auto&, auto&) { specs[1].rows = 4; }, "'items', float32 [4, 3]"},
      {[](auto& specs, auto&, auto&) { specs[0].initializer = init::zeros(); }, "constant(0)"},
      {[](auto&, auto& options, auto&) { options.most_samples = 5; }, "at most 5 samples"},
      {[](auto&, auto& options, auto&) { options.seed = 5; }, "seed 5"},
      {[](auto&, auto& options, auto&) { options.parts = 2; }, "in 2 parts"},
      {[](auto&, auto& options, auto&) { options.out_of_range = ops::OutOfRange::trap; },
       "ids trapped"},
      {[](auto&, auto& options, auto&) { options.sent = SentRows::distinct; }, "distinct rows"},
      {[](auto& specs, auto&, auto&) { specs[1].most_distinct = 2; }, "at most 2 distinct"},
      {[](auto&, auto&, auto& plan) { plan.tables[0].ranks = {1}; }, "table_wise on [1]"}};
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    for (auto const& difference : differences) {
      auto specs = two_specs();
      ShardedTablesOptions options{.most_samples = 4};
      auto plan = plan_of(specs, {Sharding::table_wise}, rank.size());
      if (rank.rank() == 1) {
        difference.change(specs, options, plan);
      }
      EXPECT_THAT(message_of<std::invalid_argument>(
                      [&] { ShardedTables<R>(specs, rank.communicator, options, plan); }),
                  AllOf(HasSubstr("ShardedTables: rank 0 has "),
                        HasSubstr("and rank 1 has "),
                        HasSubstr(difference.message)));
    }
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
  });
}

TYPED_TEST(ShardedTablesInput, wrong_options_and_bags_are_refused_and_tables_stay_usable) {
  using R = TypeParam;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    auto const specs = two_specs();
    auto const refused = [&](ShardedTablesOptions const& options,
                             std::optional<TablePlan> const& plan = {}) {
      return message_of<std::invalid_argument>(
          [&] { ShardedTables<R>(specs, rank.communicator, options, plan); });
    };
    EXPECT_THAT(refused({.most_samples = 0}), HasSubstr("most_samples of 0; expected 1 to "));
    EXPECT_THAT(refused({.most_samples = 1, .parts = -1}), HasSubstr("-1 parts of a batch"));
    EXPECT_THAT(refused({.most_samples = 1, .reduction = comm::Reduction::max}),
                HasSubstr("the max of gradients; expected mean or sum"));
    EXPECT_THAT(refused({.most_samples = 1, .out_of_range = ops::OutOfRange::count}),
                HasSubstr("expected drop or trap"));
    EXPECT_THAT(refused({.most_samples = 1, .sent = static_cast<SentRows>(7)}),
                HasSubstr("SentRows number 7; expected pooled or distinct"));
    EXPECT_THAT(refused({.most_samples = 1}, plan_of(specs, {Sharding::table_wise}, 3)),
                HasSubstr("a plan for 3 ranks, and a communicator of 2"));

    ShardedTables<R> const tables(specs, rank.communicator, {.most_samples = 4});
    auto const bags = [&](std::int64_t ids, std::int64_t samples) {
      Tensor<std::int64_t, R> const all(rank.device, {ids});
      fill_bytes(all, 0);
      return ops::TableBags<R>{.ids = all, .batch = samples};
    };
    auto const refuses = [&](ops::TableBags<R> const& wrong) {
      return message_of<std::invalid_argument>([&] { (void)tables.exchange(wrong); });
    };
    EXPECT_THAT(refuses(bags(15, 5)), HasSubstr("5 samples; expected at most 4"));
    EXPECT_THAT(refuses(bags(8, 3)), HasSubstr("ids of shape [8] for a hotness of 3"));
    auto wrong = bags(9, 3);
    wrong.offsets = Tensor<std::int64_t, R>(rank.device, {6});
    EXPECT_THAT(refuses(wrong), HasSubstr("offsets of shape [6] for 2 tables and 3 samples"));
    wrong.offsets = Tensor<std::int32_t, R>(rank.device, {7});
    EXPECT_THAT(refuses(wrong), HasSubstr("ids of int64 with offsets of int32"));
    wrong = bags(9, 3);
    wrong.weights = Tensor<float, R>(rank.device, {8});
    EXPECT_THAT(refuses(wrong), HasSubstr("weights of shape [8] for ids of shape [9]"));
    auto largest = specs;
    largest[1].pooling = ops::Pooling::max;
    ShardedTables<R> const maxima(largest, rank.communicator, {.most_samples = 4});
    wrong.weights = Tensor<float, R>(rank.device, {9});
    EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)maxima.exchange(wrong); }),
                HasSubstr("weights, and the table 'items' of Pooling::max"));
    ShardedTablesOptions const sends_distinct{.most_samples = 4, .sent = SentRows::distinct};
    ShardedTables<R> const distinct(specs, rank.communicator, sends_distinct);
    EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)distinct.exchange(wrong); }),
                HasSubstr("weights of ids with SentRows::distinct"));
    auto with_default = specs;
    with_default[1].default_id = 2;
    EXPECT_THAT(message_of<std::invalid_argument>(
                    [&] { ShardedTables<R>(with_default, rank.communicator, sends_distinct); }),
                HasSubstr("the table 'items' has default_id 2; expected none"));

    Optimizer<R> clips(rank.device,
                       {.kind = ops::OptimizerKind::adam, .learning_rate = 1},
                       {.clip_norm = 1.0F + static_cast<float>(rank.rank())});
    EXPECT_THAT(
        message_of<std::invalid_argument>([&] { tables.add_to(clips); }),
        HasSubstr("rank 0 has clip_norm 1, skip_non_finite false, micro_batches 1, loss scale "
                  "none, and rank 1 has clip_norm 2, skip_non_finite false"));
    Optimizer<R> rounds(rank.device,
                        {.kind = ops::OptimizerKind::adam, .learning_rate = 1},
                        {.table_rounding = OptimizerOptions::Rounding::stochastic,
                         .rounding_seed = static_cast<std::uint64_t>(rank.rank())});
    EXPECT_THAT(message_of<std::invalid_argument>([&] { tables.add_to(rounds); }),
                HasSubstr("stochastic rounding with seed 1"));

    // Each rank has one of the two tables, and patterns name both.
    Optimizer<R> lacks(rank.device,
                       {.kind = ops::OptimizerKind::adam, .learning_rate = 0},
                       {.may_lack_gradient = {"users", "items"}});
    tables.add_to(lacks);
    GradientTape<R> tape(rank.device);
    tape.backward(ops::sum(tape, tables.lookup(tape, bags(9, 3))));
    lacks.step(tape);

    auto const two = tables.exchange(bags(6, 2));
    auto const three = tables.exchange(bags(9, 3));
    EXPECT_THAT(message_of<std::invalid_argument>([&] { two.assign(three); }),
                HasSubstr("ids of 3 samples assigned to those of 2; expected the same tables"));
    ShardedTables<R> const others(specs, rank.communicator, {.most_samples = 4});
    EXPECT_THAT(message_of<std::invalid_argument>([&] { two.assign(others.exchange(bags(6, 2))); }),
                HasSubstr("assigned to those of 2 of other tables"));
    auto const ids = others.exchange(bags(9, 3));
    EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)tables.lookup(no_tape, ids); }),
                HasSubstr("a lookup of ids that other tables have exchanged"));
    EXPECT_EQ(to_host(tables.lookup(no_tape, bags(9, 3))), to_host(others.lookup(no_tape, ids)));
  });
}

template <Runtime R>
void expect_bad_ids_told(SentRows sent, std::string const& room) {
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    auto const specs = two_specs();
    auto const plan = plan_of(specs, {Sharding::row_wise, Sharding::table_wise}, rank.size());
    ShardedTables<R> const tables(
        specs,
        rank.communicator,
        {.most_samples = 2, .out_of_range = ops::OutOfRange::trap, .sent = sent},
        plan);
    auto const lookup = [&](std::vector<std::int64_t> const& ids,
                            std::vector<std::int64_t> const& offsets) {
      return to_host(tables.lookup(
          no_tape,
          ops::TableBags<R>{.ids = rank.tensor(ids), .batch = 2, .offsets = rank.tensor(offsets)}));
    };
    // The table of users is on both ranks, and has room for four ids of each rank.
    auto const most = lookup({5, 1, 2, 3, 0, 1}, {0, 4, 4, 5, 6});
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
    EXPECT_THAT(message_of<std::out_of_range>([&] {
                  (void)lookup({5, 1, 2, 3, 4, 5, 0, 1, 2}, {0, 4, 9, 9, 9});
                }),
                HasSubstr(room));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
    EXPECT_THAT(message_of<std::out_of_range>([&] {
                  (void)lookup({5, 6, 0, 1}, {0, 2, 2, 3, 4});
                }),
                AllOf(HasSubstr("ShardedTables, rank " + std::to_string(rank.rank())),
                      HasSubstr("id 6 outside [0, 6) of table 'users'")));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
    EXPECT_THAT(message_of<std::out_of_range>([&] {
                  (void)lookup({5, 5, 0, -1}, {0, 2, 2, 3, 4});
                }),
                HasSubstr("id -1 outside [0, 3) of table 'items'"));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
    EXPECT_THAT(message_of<std::out_of_range>([&] {
                  (void)lookup({5, 4, 0, 1}, {0, 2, 1, 3, 4});
                }),
                HasSubstr("ShardedTables"));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
    EXPECT_EQ(lookup({5, 1, 2, 3, 0, 1}, {0, 4, 4, 5, 6}), most);
  });
}

TYPED_TEST(ShardedTablesInput, ids_that_do_not_fit_or_do_not_exist_are_told) {
  expect_bad_ids_told<TypeParam>(SentRows::pooled,
                                 "the most ids of a message, by TableSpec::hotness");
  expect_bad_ids_told<TypeParam>(SentRows::distinct,
                                 "the most ids of all tables, by TableSpec::hotness");
}

TYPED_TEST(ShardedTablesInput, narrow_ids_and_counts_on_the_device_are_taken) {
  using R = TypeParam;
  on_ranks<R>(3, [&](Rank<R> const& rank) {
    auto const specs = two_specs();
    for (auto const& [sharding, sent] :
         std::vector<std::pair<Sharding, SentRows>>{{Sharding::table_wise, SentRows::pooled},
                                                    {Sharding::row_wise, SentRows::pooled},
                                                    {Sharding::replicated, SentRows::pooled},
                                                    {Sharding::table_wise, SentRows::distinct},
                                                    {Sharding::row_wise, SentRows::distinct},
                                                    {Sharding::replicated, SentRows::distinct}}) {
      ShardedTables<R> const tables(specs,
                                    rank.communicator,
                                    {.most_samples = 4, .sent = sent},
                                    plan_of(specs, {sharding}, rank.size()));
      auto const wide = to_host(tables.lookup(
          no_tape,
          ops::TableBags<R>{.ids = rank.tensor(std::vector<std::int64_t>{0, 5, 1, 1, 2, 0}),
                            .batch = 2}));
      std::vector<std::int32_t> const ids{0, 5, 1, 1, -9, -9, 2, 0, -9};
      auto const narrow = to_host(tables.lookup(
          no_tape,
          ops::TableBags<R>{.ids = rank.tensor(ids),
                            .batch = 3,
                            .batch_count = rank.tensor(std::vector<std::int64_t>{2})}));
      auto expected = wide;
      expected.resize(wide.size() + static_cast<std::size_t>(tables.width()));
      EXPECT_EQ(narrow, expected);
    }
  });
}

TYPED_TEST(ShardedTablesInput, captured_steps_keep_what_they_read_of_tables_that_are_gone) {
  using R = TypeParam;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    for (auto const sent : {SentRows::pooled, SentRows::distinct}) {
      auto const ids =
          to_device(rank.device, std::vector<std::int64_t>{1, 2, 0, 3, 1, 4, 2, 0, 5}, {9});
      std::optional<Tensor<float, R>> pooled;
      std::optional<CapturedStep<R>> step;
      std::vector<float> expected;
      {
        ShardedTables<R> const tables(
            two_specs(), rank.communicator, {.most_samples = 3, .sent = sent});
        auto const look_up = [&] {
          pooled = tables.lookup(no_tape, ops::TableBags<R>{.ids = ids, .batch = 3});
        };
        look_up();
        expected = to_host(*pooled);
        step.emplace(rank.device, look_up);
      }
      // Would take the memory of the arrays by which messages are written.
      std::vector<Tensor<std::int64_t, R>> others;
      for (std::int64_t count = 1; count < 256; count += 8) {
        fill_bytes(others.emplace_back(rank.device, Shape{count}), 1);
      }
      step->replay();
      EXPECT_EQ(to_host(*pooled), expected);
    }
  });
}

TYPED_TEST(ShardedTablesInput, weights_on_one_rank_alone_are_told) {
  using R = TypeParam;
  auto const body = [&](Rank<R> const& rank) {
    // Weights of one id a sample take as much room as pooled rows of width 1.
    ShardedTables<R> const tables(
        {{.name = "users", .rows = 8, .width = 1}}, rank.communicator, {.most_samples = 2});
    Tensor<std::int64_t, R> const ids(rank.device, {2});
    fill_bytes(ids, 0);
    ops::TableBags<R> bags{.ids = ids, .batch = 2};
    if (rank.rank() == 0) {
      fill_bytes(bags.weights.emplace(rank.device, ids.shape()), 0);
    }
    EXPECT_THROW(static_cast<void>(to_host(tables.lookup(no_tape, bags))), comm::CollectiveError);
  };
  on_ranks<R>(2, body);
}

}  // namespace
}  // namespace msstream::testing
