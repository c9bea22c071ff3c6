// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>

#include <fmt/core.h>

namespace msstream::testing {
namespace {

using ops::EmbeddingTable;
using ops::EmbeddingTables;
using ops::OutOfRange;
using ops::Pooling;
using ops::TableBags;

template <class R>
class EmbeddingTablesTest : public OpsTest<R> {
 protected:
  using Tables = EmbeddingTables<R>;
  using Bags = TableBags<R>;

  template <Element T>
  [[nodiscard]] Tensor<T, R> rounded(Floats const& values, Shape const& shape) const {
    std::vector<T> narrow;
    for (auto const value : values) {
      narrow.push_back(from_float<T>(value));
    }
    return this->put(narrow, shape);
  }
  /// Returns two tables: [3, 2] of float32, pooled by sum, and [2, 1] of float16, pooled by the
  /// mean of two ids.
  [[nodiscard]] Tables two_tables() const {
    return Tables(this->device(),
                  {{.weights = this->put(Floats{1, 2, 3, 4, 5, 6}, {3, 2})},
                   {.weights = rounded<float16>({10, 20}, {2, 1}),
                    .pooling = Pooling::mean,
                    .hotness = 2,
                    .default_id = 1}});
  }
};
TYPED_TEST_SUITE(EmbeddingTablesTest, Runtimes, RuntimeNames);

TYPED_TEST(EmbeddingTablesTest, columns_lie_side_by_side_and_ids_table_by_table) {
  auto const tables = this->two_tables();
  EXPECT_EQ(tables.tables(), 2);
  EXPECT_EQ(tables.width(), 3);
  EXPECT_EQ(tables.hotness(), 3);
  EXPECT_EQ(tables.first_column(1), 2);
  EXPECT_EQ(tables.first_place(1, 2), 2);
  auto const pooled = ops::embedding_lookup(
      tables, TableBags<TypeParam>{.ids = this->put(Integers{2, 0, 0, 1, 0, 0}), .batch = 2});
  EXPECT_EQ(pooled.shape(), (Shape{2, 3}));
  EXPECT_EQ(to_host(pooled), (Floats{5, 6, 15, 1, 2, 10}));
}

TYPED_TEST(EmbeddingTablesTest, jagged_bags_of_32_bit_ids) {
  auto const tables = this->two_tables();
  std::vector<std::int32_t> const ids{0, 1, 2, 0, 7, 7};
  std::vector<std::int32_t> const offsets{0, 3, 3, 4, 5};
  auto const pooled = ops::embedding_lookup(
      tables,
      TableBags<TypeParam>{.ids = this->put(ids), .batch = 2, .offsets = this->put(offsets)});
  EXPECT_EQ(to_host(pooled), (Floats{9, 12, 10, 0, 0, 20}));  // id 7 is replaced by the default id
}

TYPED_TEST(EmbeddingTablesTest, weights_a_batch_count_and_an_output_of_half_the_bits) {
  auto const tables = this->two_tables();
  TableBags<TypeParam> const bags{.ids = this->put(Integers{2, 0, 0, 1, 0, 0}),
                                  .batch = 2,
                                  .batch_count = this->scalar(1),
                                  .weights = this->put(Floats{2, 1, 3, 1, 1, 1})};
  auto const pooled = to_host(ops::embedding_lookup<bfloat16>(tables, bags));
  EXPECT_EQ(to_doubles(pooled), (Doubles{10, 12, 12.5, 0, 0, 0}));
}

TYPED_TEST(EmbeddingTablesTest, a_lookup_in_all_is_that_in_each) {
  constexpr std::int64_t kBatch = 19;
  std::vector<EmbeddingTable<TypeParam>> list;
  Integers ids;
  Integers offsets{0};
  for (auto const pooling : {Pooling::sum, Pooling::mean, Pooling::sqrtn, Pooling::max}) {
    for (std::int64_t const width : {1, 33, 64}) {
      list.push_back(
          {.weights = this->random_tensor({20, width}), .pooling = pooling, .default_id = 3});
      for (std::int64_t bag = 0; bag < kBatch; ++bag) {
        auto const own = this->random.integers(this->random.integer(0, 5), -1, 20);
        ids.insert(ids.end(), own.begin(), own.end());
        offsets.push_back(static_cast<std::int64_t>(ids.size()));
      }
    }
  }
  EmbeddingTables<TypeParam> const tables(this->device(), list);
  auto const all = to_host(ops::embedding_lookup(
      tables,
      TableBags<TypeParam>{.ids = this->put(ids), .batch = kBatch, .offsets = this->put(offsets)}));
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    SCOPED_TRACE(fmt::format("table {}", t));
    auto const first = offsets.begin() + t * kBatch;
    ops::Bags<TypeParam> bags(this->put(ids), this->put(Integers(first, first + kBatch + 1)));
    bags.default_id = 3;
    auto const weights = std::get<0>(tables.table(t).weights);
    auto const width = weights.shape()[1];
    auto const each =
        to_host(ops::embedding_lookup(weights, bags, {.pooling = tables.table(t).pooling}));
    Floats columns;
    for (std::int64_t bag = 0; bag < kBatch; ++bag) {
      auto const row = all.begin() + bag * tables.width() + tables.first_column(t);
      columns.insert(columns.end(), row, row + width);
    }
    expect_near(columns, to_doubles(each), 1e-6);
  }
}

TYPED_TEST(EmbeddingTablesTest, a_lookup_sees_the_tables_last_writes) {
  auto const shared = this->put(Floats{1, 2, 3, 4}, {4, 1});
  EmbeddingTables<TypeParam> const tables(
      this->device(), {{.weights = shared.rows(0, 2)}, {.weights = shared.rows(2, 4)}});
  TableBags<TypeParam> const bags{.ids = this->put(Integers{1, 1}), .batch = 1};
  EXPECT_EQ(to_host(ops::embedding_lookup(tables, bags)), (Floats{2, 4}));
  copy(shared, this->put(Floats{5, 6, 7, 8}, {4, 1}));
  EXPECT_EQ(to_host(ops::embedding_lookup(tables, bags)), (Floats{6, 8}));
}

TYPED_TEST(EmbeddingTablesTest, frozen_tables_and_an_empty_batch) {
  auto weights = this->random_tensor({4, 3});
  weights.freeze();
  EmbeddingTables<TypeParam> const tables(this->device(), {{.weights = weights}});
  auto const pooled =
      ops::embedding_lookup(tables, TableBags<TypeParam>{.ids = this->put(Integers{}), .batch = 0});
  EXPECT_EQ(pooled.shape(), (Shape{0, 3}));
  EXPECT_TRUE(to_host(pooled).empty());
}

TYPED_TEST(EmbeddingTablesTest, bad_ids_are_counted_or_trapped) {
  auto const tables = this->two_tables();
  TableBags<TypeParam> const bags{.ids = this->put(Integers{3, -1, 0, 1, 2, 0}), .batch = 2};
  auto const count = this->scalar(5);
  auto const pooled = ops::embedding_lookup(
      tables, bags, {.out_of_range = OutOfRange::count, .bad_id_count = count});
  EXPECT_EQ(to_host(pooled), (Floats{0, 0, 15, 0, 0, 10}));
  EXPECT_EQ(to_host(count).front(), 8);
  auto const trapped = ops::embedding_lookup(tables, bags, {.out_of_range = OutOfRange::trap});
  EXPECT_THAT(message_of<std::out_of_range>([&] { (void)to_host(trapped); }),
              ::testing::HasSubstr("embedding_tables_lookup: id"));
  for (bool const second : {false, true}) {
    TableBags<TypeParam> const bad{
        .ids = this->put(second ? Integers{0, 1, 0, 1, 2, 0} : Integers{0, 100, 0, 0, 0, 0}),
        .batch = 2};
    auto const one = ops::embedding_lookup(tables, bad, {.out_of_range = OutOfRange::trap});
    EXPECT_THAT(message_of<std::out_of_range>([&] { (void)to_host(one); }),
                ::testing::EndsWith(second ? " of table 1" : " of table 0"));
  }
}

TYPED_TEST(EmbeddingTablesTest, refuses_what_does_not_fit) {
  using Tables = EmbeddingTables<TypeParam>;
  using Bags = TableBags<TypeParam>;
  auto const good = this->any({4, 2});
  auto const make = [&](EmbeddingTable<TypeParam> table) {
    return [this, table] { Tables(this->device(), {table}); };
  };
  expect_refused([&] { Tables(this->device(), {}); }, "none");
  expect_refused(make({.weights = this->any({4})}), "table 0", "[4]", "[rows, width]");
  expect_refused(make({.weights = this->any({4, 0})}), "one column");
  expect_refused(make({.weights = good, .pooling = Pooling::none}), "pooled");
  expect_refused(make({.weights = good, .hotness = -1}), "hotness of -1; expected 0 to 2147483647");
  expect_refused(make({.weights = good, .default_id = 4}), "default id of 4", "4 rows");
  expect_refused(make({.weights = good, .default_id = -2}), "default id of -2");

  auto const tables = this->two_tables();
  auto const ids = this->put(Integers{0, 0, 0});
  auto const look_up = [&](Bags const& bags) {
    return [&tables, bags] { (void)ops::embedding_lookup(tables, bags); };
  };
  expect_refused([&] { (void)tables.table(2); }, "table 2", "2");
  expect_refused([&] { (void)tables.first_column(-1); }, "table -1");
  expect_refused(look_up({.ids = ids, .batch = -1}), "batch of -1; expected 0 or more");
  expect_refused(look_up({.ids = ids, .batch = 2}), "hotness of 3", "batch of 2");
  expect_refused(look_up({.ids = ids, .batch = 1, .offsets = this->put(Integers{0, 3})}),
                 "offsets of shape [2]",
                 "2 tables");
  expect_refused(
      look_up({.ids = ids, .batch = 1, .offsets = this->put(std::vector<std::int32_t>{0, 1, 3})}),
      "int64",
      "int32");
  expect_refused(look_up({.ids = ids, .batch = 1, .batch_count = this->put(Integers{1, 1})}),
                 "batch_count",
                 "[2]");
  expect_refused(look_up({.ids = ids, .batch = 1, .weights = this->any({2})}), "weights", "[2]");
  expect_refused(
      [&] {
        (void)ops::embedding_lookup(
            tables, Bags{.ids = ids, .batch = 1}, {.out_of_range = OutOfRange::count});
      },
      "bad_id_count");
  expect_refused(
      [&] { (void)ops::embedding_lookup<std::int64_t>(tables, Bags{.ids = ids, .batch = 1}); },
      "int64");
  Tables const largest(this->device(), {{.weights = good, .pooling = Pooling::max}});
  expect_refused(
      [&] {
        (void)ops::embedding_lookup(
            largest, Bags{.ids = this->put(Integers{0}), .batch = 1, .weights = this->any({1})});
      },
      "maximum");
}

}  // namespace
}  // namespace msstream::testing
