// SPDX-License-Identifier: Apache-2.0
#include "step/capture/captured_counts_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/ops/table_batch.hpp>

#include <fmt/core.h>

/// Tests that one captured lookup, gradient or update serves every count of ids and bags up
/// to its capacity.
namespace msstream::testing {
namespace {

using ops::OptimizerKind;
using ops::Pooling;

/// Makes two optimizer steps, so that the second one finds optimizer state, and returns the table
/// and the state, if there is any.
template <Runtime R>
Results<R> updated(OptimizerKind kind, Content<R> const& in) {
  Device<R> const device(in.table.device());
  ops::OptimizerRule const rule{.kind = kind, .learning_rate = 0.1F};
  auto bags = in.jagged();
  bags.bag_count = in.bag_count;
  auto const unique = ops::deduplicate(bags, kGroupsOfPlaces);
  auto const table = ops::scale(in.table, 1.0F);
  auto const state = ops::make_state(device, kind, table.shape());
  ops::StepCounter<R> counter(device);
  for (auto const begin : {std::int64_t{0}, kGroupsOfPlaces}) {
    auto const gradient = in.values.rows(begin, begin + kGroupsOfPlaces);
    counter.advance(rule);
    ops::update_embedding(rule, counter, table, state, bags, unique, Pooling::mean, gradient);
  }
  Results<R> results{table};
  for (auto const& tensor : {state.first, state.second}) {
    if (tensor) {
      results.push_back(*tensor);
    }
  }
  return results;
}

/// Returns the results of deduplicate(), and of the embedding gradient that is computed with them.
template <Runtime R>
Results<R> gradient_of_a_table(Content<R> const& in, bool is_weighted, Pooling pooling) {
  auto bags = in.jagged();
  bags.bag_count = in.bag_count;
  if (is_weighted) {
    bags.weights = in.weights;
  } else if (pooling != Pooling::none) {
    bags.default_id = 3;
  }
  std::optional<Tensor<std::int32_t, R>> argmax;
  if (pooling == Pooling::max) {
    argmax.emplace(in.table.device(), in.table.shape());
    (void)ops::embedding_lookup(in.table, bags, {.pooling = pooling, .argmax = argmax});
  }
  auto const unique = ops::deduplicate(bags, kGroupsOfPlaces);
  auto const& output_gradient = pooling == Pooling::none ? in.values : in.table;
  auto const gradient =
      ops::embedding_gradient(bags, unique, kGroupsOfPlaces, pooling, output_gradient, argmax);
  auto const twice = ops::merge_row_gradients(std::vector{gradient, gradient}, kGroupsOfPlaces);
  return {{unique.ids, unique.count},
          unique.count,
          unique.ranks,
          {gradient.values, unique.count},
          {twice.ids, twice.count},
          {twice.values, twice.count}};
}

/// Returns operations on one embedding table, with kGroupsOfPlaces bags that are given by offsets
/// or by coordinates.
template <Runtime R>
Operations<R> operations_on_a_table() {
  Operations<R> operations{
      {"lookup",
       [](Content<R> const& in) -> Results<R> {
         auto bags = in.jagged();
         bags.default_id = 3;
         return {ops::embedding_lookup(in.table, bags, {.pooling = Pooling::mean}),
                 ops::embedding_lookup(in.table, in.jagged(), {.pooling = Pooling::max})};
       }},
      {"gradient of weights",
       [](Content<R> const& in) -> Results<R> {
         auto bags = in.jagged();
         bags.bag_count = in.bag_count;
         bags.weights = in.weights;
         auto const gradient = in.values.rows(0, kGroupsOfPlaces);
         return {ops::embedding_weight_gradient(in.table, bags, Pooling::sum, gradient),
                 ops::embedding_weight_gradient(in.table, bags, Pooling::none, in.values)};
       }},
      {"lookup by coordinates", [](Content<R> const& in) -> Results<R> {
         auto const narrow = ops::cast_ids<std::int32_t>(ops::IdTensor<R>(in.ids));
         return {
             ops::embedding_lookup(in.table, ops::coo_bags(in.ids, in.bag_of_id, kGroupsOfPlaces)),
             ops::embedding_lookup(in.table, ops::coo_bags(narrow, in.bag_of_id, kGroupsOfPlaces))};
       }}};
  for (auto const& [name, pooling] : {std::pair{"sum", Pooling::sum},
                                      {"mean", Pooling::mean},
                                      {"sqrtn", Pooling::sqrtn},
                                      {"max", Pooling::max},
                                      {"none", Pooling::none}}) {
    operations.emplace_back(
        fmt::format("gradient by {}", name),
        [pooling = pooling](auto const& in) { return gradient_of_a_table(in, false, pooling); });
  }
  operations.emplace_back("gradient by weighted mean", [](Content<R> const& in) {
    return gradient_of_a_table(in, true, Pooling::mean);
  });
  for (auto const& [name, kind] : {std::pair{"sgd", OptimizerKind::sgd},
                                   {"momentum", OptimizerKind::momentum},
                                   {"adagrad", OptimizerKind::adagrad},
                                   {"row-wise adagrad", OptimizerKind::rowwise_adagrad},
                                   {"adam", OptimizerKind::adam}}) {
    operations.emplace_back(fmt::format("update by {}", name),
                            [kind = kind](Content<R> const& in) { return updated(kind, in); });
  }
  return operations;
}

/// Many embedding tables. They are made before a capture, since their descriptors are uploaded to
/// the device.
template <Runtime R>
struct ManyTables {
  ops::EmbeddingTables<R> mixed;     ///< mixed widths, types and poolings
  ops::EmbeddingTables<R> wide;      ///< all of one width, so that their gradients have no gaps
  ops::TableBatch<float, R> behind;  ///< all in one tensor

  explicit ManyTables(Device<R> const& device, Random& random)
      : mixed(device,
              {{.weights = table<float>(device, random, 400, 20), .hotness = 5},
               {.weights = table<float16>(device, random, 300, 8),
                .pooling = Pooling::mean,
                .hotness = 1,
                .default_id = 3},
               {.weights = table<bfloat16>(device, random, 500, 33),
                .pooling = Pooling::sqrtn,
                .hotness = 40},
               {.weights = table<float>(device, random, 200, 3),
                .pooling = Pooling::max,
                .hotness = 2}}),
        wide(device,
             {{.weights = table<float>(device, random, 400, kColumns), .hotness = 7},
              {.weights = table<float16>(device, random, 300, kColumns),
               .pooling = Pooling::mean,
               .hotness = 1,
               .default_id = 3},
              {.weights = table<float>(device, random, 500, kColumns),
               .pooling = Pooling::sqrtn,
               .hotness = 20},
              {.weights = table<float>(device, random, 200, kColumns), .hotness = 20}}),
        behind(device, {400, 300, 500, 200}, kColumns) {
    copy(behind.weights(), table<float>(device, random, 1400, kColumns));
  }

 private:
  template <class T>
  static Tensor<T, R> table(Device<R> const& device,
                            Random& random,
                            std::int64_t rows,
                            std::int64_t width) {
    std::vector<T> weights;
    for (auto const value : random.reals(rows * width)) {
      weights.push_back(from_float<T>(value));
    }
    return to_device<T, R>(device, weights, {rows, width});
  }
};

template <Runtime R>
Operations<R> operations_on_tables(ManyTables<R> const& tables) {
  auto const gradients = [](ops::TablesRowGradients<R> const& found) -> Results<R> {
    return {
        {found.rows, found.count}, found.count, found.table_starts, {found.values, found.count}};
  };
  auto const jagged = [](Content<R> const& in) -> ops::TableBags<R> {
    return {.ids = in.ids,
            .batch = kMostBags,
            .offsets = ops::IdTensor<R>(in.offsets),
            .batch_count = in.bag_count};
  };
  auto const output_gradient = [](Content<R> const& in) {
    return in.values.rows(0, kGroupsOfPlaces).reshaped({kMostBags, 4 * kColumns});
  };
  auto const fixed = [](Content<R> const& in) -> ops::TableBags<R> {
    return {.ids = in.ids, .batch = kMostBags, .batch_count = in.bag_count};
  };
  return {
      {"rows and buckets of tables",
       [=](Content<R> const& in) -> Results<R> {
         auto bags = in.jagged();
         bags.bag_count = in.bag_count;
         return {ops::embedding_lookup(tables.behind, ops::rows_of_tables(tables.behind, bags)),
                 ops::embedding_lookup(tables.behind, ops::hash_to_tables(tables.behind, bags))};
       }},
      {"lookup in tables by offsets",
       [=](Content<R> const& in) -> Results<R> {
         return {ops::embedding_lookup(tables.mixed, jagged(in))};
       }},
      {"lookup in tables of fixed hotness",
       [=](Content<R> const& in) -> Results<R> {
         return {ops::embedding_lookup(tables.mixed, fixed(in))};
       }},
      {"gradient of maxima of tables by offsets",
       [=](Content<R> const& in) -> Results<R> {
         auto const bags = jagged(in);
         Tensor<std::int32_t, R> const argmax(in.table.device(),
                                              tables.mixed.argmax_shape(kMostBags));
         auto const pooled = ops::embedding_lookup(tables.mixed, bags, {.argmax = argmax});
         auto found = gradients(
             ops::embedding_tables_gradient(tables.mixed, bags, pooled, std::optional(argmax)));
         found.pop_back();  // the values have gaps
         return found;
       }},
      {"gradient of tables by offsets",
       [=](Content<R> const& in) -> Results<R> {
         auto bags = jagged(in);
         bags.weights = in.weights;
         return gradients(ops::embedding_tables_gradient(tables.wide, bags, output_gradient(in)));
       }},
      {"gradient of tables of fixed hotness", [=](Content<R> const& in) -> Results<R> {
         return gradients(
             ops::embedding_tables_gradient(tables.wide, fixed(in), output_gradient(in)));
       }}};
}

template <class R>
class CapturedEmbeddingsTest : public CapturedCounts<R> {};
TYPED_TEST_SUITE(CapturedEmbeddingsTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedEmbeddingsTest, one_capture_on_a_table_serves_every_count) {
  this->expect_one_capture_serves_every_count(operations_on_a_table<TypeParam>());
}

TYPED_TEST(CapturedEmbeddingsTest, one_capture_on_many_tables_serves_every_count) {
  ManyTables<TypeParam> const tables(this->device(), this->random);
  this->expect_one_capture_serves_every_count(operations_on_tables(tables));
}

TYPED_TEST(CapturedEmbeddingsTest, twenty_runs_give_the_same_bits) {
  ManyTables<TypeParam> const tables(this->device(), this->random);
  this->expect_the_same_bits_in_twenty_runs(operations_on_a_table<TypeParam>());
  this->expect_the_same_bits_in_twenty_runs(operations_on_tables(tables));
}

template <class R>
class CapturedTrapTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(CapturedTrapTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedTrapTest, every_replay_reports_the_bad_ids_and_bags_that_it_meets) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 2});
  StreamScope const scope(pool[0]);
  auto const put = [&](Integers const& values) {
    return to_device<std::int64_t, TypeParam>(device, values, {std::ssize(values)});
  };
  auto const table = to_device<float, TypeParam>(device, Floats{1, 2, 4}, {3, 1});
  auto const ids = put({0, 1, 2});
  auto const offsets = put({0, 2, 3});
  auto const pooled = zeros<float>(device, {2, 1});
  auto const positions = zeros<float>(device, {3, 1});
  // Makes the device's very first trap during the capture.
  CapturedStep<TypeParam> step(device, [&] {
    NameScope const name("served");
    ops::Bags<TypeParam> const bags(ids, offsets);
    copy(pooled, ops::embedding_lookup(table, bags, {.out_of_range = ops::OutOfRange::trap}));
    copy(positions,
         ops::jagged_softmax(table, offsets, ops::OffsetPolicy<TypeParam>{ops::OutOfRange::trap}));
  });
  auto const replay = [&](Integers const& next_ids, Integers const& next_offsets) {
    copy(ids, put(next_ids));
    copy(offsets, put(next_offsets));
    step.replay();
    return to_host(pooled);
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(replay({0, 1, 2}, {0, 2, 3}), (Floats{3, 4}));
    EXPECT_EQ(message_of<std::out_of_range>([&] {
                (void)replay({0, 7, 2}, {0, 2, 3});
              }),
              "served/embedding_lookup: id 7 outside [0, 3)");
    EXPECT_EQ(to_host(pooled), (Floats{1, 4}));
    EXPECT_EQ(replay({2, 1, 0}, {0, 1, 3}), (Floats{4, 3}));
    // The bag is bad for the lookup and for the softmax. Whichever of the two finds it first
    // reports it.
    EXPECT_THAT(message_of<std::out_of_range>([&] {
                  (void)replay({0, 1, 2}, {0, 2, 5});
                }),
                ::testing::HasSubstr(": bag 1 from offset 2 to 5; expected"));
    EXPECT_EQ(to_host(pooled), (Floats{3, 0}));
  }
}

}  // namespace
}  // namespace msstream::testing
