// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::int64_t kJoinedRows = 7;

/// The ids of one column on the host, and their bags on the device.
template <class R>
struct JoinedColumn {
  std::vector<Integers> lists;  ///< the ids of each bag
  Floats weights;               ///< of all ids; empty if the column has none
  ops::Bags<R> bags;
};

template <class R>
class JoinedBagsTest : public GradientTest<R> {
 protected:
  /// Makes a column of random ids: jagged with empty lists and places behind the last one, of int64
  /// or int32, or of a fixed hotness.
  JoinedColumn<R> random_column(std::int64_t batch, bool weighted) {
    auto const kind = this->random.integer(0, 3);
    auto const hotness = this->random.integer(1, 3);
    std::vector<Integers> lists;
    Integers ids;
    Integers offsets{0};
    for (std::int64_t bag = 0; bag < batch; ++bag) {
      lists.push_back(this->random.integers(
          kind == 0 ? hotness : std::max<std::int64_t>(0, this->random.integer(-3, 12)),
          0,
          kJoinedRows - 1));
      ids.insert(ids.end(), lists.back().begin(), lists.back().end());
      offsets.push_back(std::ssize(ids));
    }
    auto const used = std::ssize(ids);
    if (kind != 0) {
      ids.resize(ids.size() + static_cast<std::size_t>(this->random.integer(0, 5)), -77);
    }
    auto weights = weighted ? this->random.reals(std::ssize(ids), 0.5F, 2.0F) : Floats{};
    auto bags = kind == 0   ? ops::Bags<R>(this->put(ids, {batch, hotness}))
                : kind == 1 ? ops::Bags<R>(this->put(narrow(ids)), this->put(narrow(offsets)))
                            : ops::Bags<R>(this->put(ids), this->put(offsets));
    if (weighted) {
      bags.weights = this->put(weights, bags.ids.shape());
      weights.resize(static_cast<std::size_t>(used));
    }
    return {lists, weights, bags};
  }
  static std::vector<std::int32_t> narrow(Integers const& values) {
    return {values.begin(), values.end()};
  }
};
TYPED_TEST_SUITE(JoinedBagsTest, Runtimes, RuntimeNames);

TYPED_TEST(JoinedBagsTest, lists_follow_each_other_column_by_column) {
  for (std::size_t const features : {1U, 2U, 3U, 7U, 26U, 60U}) {
    for (std::int64_t const batch : {0, 1, 5, 33, 300}) {
      bool const weighted = features % 2 == 1;
      std::vector<ops::Bags<TypeParam>> columns;
      Integers ids;
      Integers offsets{0};
      Floats weights;
      for (std::size_t f = 0; f < features; ++f) {
        bool const has_weights = weighted && f % 2 == 0;
        auto const column = this->random_column(batch, has_weights);
        columns.push_back(column.bags);
        std::size_t place = 0;
        for (auto const& list : column.lists) {
          for (auto const id : list) {
            ids.push_back(id);
            weights.push_back(has_weights ? column.weights[place++] : 1.0F);
          }
          offsets.push_back(std::ssize(ids));
        }
      }
      auto const joined = ops::joined_bags(columns);
      EXPECT_EQ(joined.batch, batch);
      EXPECT_EQ(to_host(joined.offsets->template as<std::int64_t>()), offsets);
      auto found = to_host(joined.ids.template as<std::int64_t>());
      ASSERT_GE(found.size(), ids.size());
      found.resize(ids.size());
      EXPECT_EQ(found, ids);
      ASSERT_EQ(joined.weights.has_value(), weighted);
      if (weighted) {
        auto copied = to_host(*joined.weights);
        copied.resize(weights.size());
        EXPECT_EQ(copied, weights);
      }
    }
  }
}

TYPED_TEST(JoinedBagsTest, a_fused_lookup_and_update_is_that_of_each_table) {
  constexpr std::int64_t kBatch = 13;
  for (std::size_t const features : {1U, 2U, 7U, 26U}) {
    std::vector<Tensor<float, TypeParam>> tables;
    std::vector<Tensor<float, TypeParam>> alone;
    std::vector<ops::EmbeddingTable<TypeParam>> described;
    std::vector<ops::Bags<TypeParam>> columns;
    std::int64_t width = 0;
    for (std::size_t f = 0; f < features; ++f) {
      auto const columns_of_table = this->random.integer(1, 5);
      auto const values = this->random.reals(kJoinedRows * columns_of_table);
      tables.push_back(this->put(values, {kJoinedRows, columns_of_table}));
      alone.push_back(this->put(values, {kJoinedRows, columns_of_table}));
      described.push_back({.weights = tables.back(),
                           .pooling = f % 2 == 0 ? ops::Pooling::mean : ops::Pooling::sum});
      columns.push_back(this->random_column(kBatch, false).bags);
      width += columns_of_table;
    }
    ops::EmbeddingTables<TypeParam> const all(this->device(), described);
    auto const labels = this->put(this->random.reals(kBatch * width, 0.0F, 1.0F), {kBatch, width});
    auto const train = [&](std::vector<Tensor<float, TypeParam>> const& moved,
                           auto const& lookup_of) {
      GradientTape tape(this->device());
      Optimizer<TypeParam> optimizer(this->device(),
                                     {.kind = ops::OptimizerKind::sgd, .learning_rate = 2.0F});
      for (std::size_t f = 0; f < features; ++f) {
        optimizer.add_table(fmt::format("table_{}", f), moved[f]);
      }
      auto const pooled = lookup_of(tape);
      tape.backward(ops::mean_bce_with_logits(tape, pooled, labels));
      optimizer.step(tape);
      return to_host(pooled);
    };
    auto const together = train(tables, [&](auto& tape) {
      return ops::embedding_lookup(tape, all, ops::joined_bags(columns));
    });
    auto const each = train(alone, [&](auto& tape) {
      std::vector<Tensor<float, TypeParam>> blocks;
      for (std::size_t f = 0; f < features; ++f) {
        blocks.push_back(
            ops::embedding_lookup(tape, alone[f], columns[f], {.pooling = described[f].pooling}));
      }
      return ops::concat(tape, blocks);
    });
    EXPECT_EQ(together, each);
    for (std::size_t f = 0; f < features; ++f) {
      expect_near(to_host(tables[f]), to_doubles(to_host(alone[f])));
    }
  }
}

TYPED_TEST(JoinedBagsTest, bad_bags_have_no_ids_and_are_counted) {
  auto const ids = this->put(Integers{1, 2, 3, 4, 5});
  auto const bad = this->scalar(0);
  auto const joined = ops::joined_bags({ops::Bags<TypeParam>(ids, this->put(Integers{0, 4, 2, 5})),
                                        ops::Bags<TypeParam>(ids, this->put(Integers{0, 2, 9, 4})),
                                        ops::Bags<TypeParam>(ids, this->put(Integers{2, 2, 3, 4}))},
                                       {ops::OutOfRange::count, bad});
  EXPECT_EQ(to_host(joined.offsets->template as<std::int64_t>()),
            (Integers{0, 0, 0, 3, 5, 5, 5, 5, 6, 7}));
  auto found = to_host(joined.ids.template as<std::int64_t>());
  found.resize(7);
  EXPECT_EQ(found, (Integers{3, 4, 5, 1, 2, 3, 4}));
  EXPECT_EQ(to_host(bad)[0], 4);
}

TYPED_TEST(JoinedBagsTest, a_replay_joins_the_lists_of_its_batch) {
  auto const count = this->scalar(3);
  auto const offsets = this->put(Integers{0, 1, 3, 3});
  ops::Bags<TypeParam> first(this->put(Integers{1, 2, 3}), offsets);
  ops::Bags<TypeParam> second(this->put(Integers{4, 5, 6}));
  first.bag_count = count;
  second.bag_count = count;
  std::optional<ops::TableBags<TypeParam>> joined;
  CapturedStep<TypeParam> step(this->device(), [&] { joined = ops::joined_bags({first, second}); });
  auto const after_replay = [&] {
    step.replay();
    return to_host(joined->offsets->template as<std::int64_t>());
  };
  EXPECT_EQ(after_replay(), (Integers{0, 1, 3, 3, 4, 5, 6}));
  copy(count, this->scalar(2));
  EXPECT_EQ(after_replay(), (Integers{0, 1, 3, 3, 4, 5, 5}));
  copy(offsets, this->put(Integers{0, 0, 0, 1}));
  EXPECT_EQ(after_replay(), (Integers{0, 0, 0, 0, 1, 2, 2}));
  ASSERT_TRUE(joined->batch_count);
  EXPECT_EQ(joined->batch_count->data(), count.data());
}

TYPED_TEST(JoinedBagsTest, refusals_name_the_column) {
  using Bags = ops::Bags<TypeParam>;
  auto const two = Bags(this->put(Integers{1, 2}));
  auto counted = two;
  counted.bag_count = this->scalar(1);
  auto with_default = two;
  with_default.default_id = 1;
  expect_refused(
      [&] { (void)ops::joined_bags(std::vector<Bags>{}); }, "joined_bags", "at least one");
  expect_refused(
      [&] {
        (void)ops::joined_bags({two, Bags(this->put(Integers{1}))});
      },
      "1 bags in column 1");
  expect_refused([&] { (void)ops::joined_bags({two, counted}); }, "column 1", "bag_count");
  expect_refused([&] { (void)ops::joined_bags({two, with_default}); }, "column 1", "default id");
}

}  // namespace
}  // namespace msstream::testing
