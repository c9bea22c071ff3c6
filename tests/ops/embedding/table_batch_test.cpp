// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/ids.hpp>
#include <msstream/ops/table_batch.hpp>

#include <fmt/core.h>

namespace msstream::testing {
namespace {

using ops::Bags;
using ops::OutOfRange;
using ops::Pooling;

Integers const kRowCounts{7, 1, 40};
constexpr std::int64_t kTables = 3;

template <class R>
class TableBatchTest : public OpsTest<R> {
 protected:
  using Ids = Tensor<std::int64_t, R>;

  ops::TableBatch<float, R> random_tables(std::int64_t width) {
    ops::TableBatch<float, R> tables(this->device(), kRowCounts, width);
    copy(tables.weights(), this->random_tensor(tables.weights().shape()));
    return tables;
  }
  /// Returns the columns of one table out of the packed columns of all tables.
  static Floats columns_of(Floats const& packed, std::int64_t table, std::int64_t width) {
    Floats out;
    auto const row = static_cast<std::ptrdiff_t>(kTables * width);
    for (auto at = packed.begin(); at != packed.end(); at += row) {
      out.insert(out.end(), at + table * width, at + (table + 1) * width);
    }
    return out;
  }
};
TYPED_TEST_SUITE(TableBatchTest, Runtimes, RuntimeNames);

TYPED_TEST(TableBatchTest, shares_the_elements_of_a_table_that_it_is_made_of) {
  auto const weights = this->random_tensor({48, 4});
  ops::TableBatch<float, TypeParam> const tables(weights, kRowCounts);
  EXPECT_EQ(tables.tables(), kTables);
  EXPECT_EQ(to_host(tables.first_rows()), (Integers{0, 7, 8, 48}));
  copy(tables.table(1), this->put(Floats{1, 2, 3, 4}, {1, 4}));
  EXPECT_EQ(to_host(weights.rows(7, 8)), (Floats{1, 2, 3, 4}));
  EXPECT_THROW((ops::TableBatch<float, TypeParam>(weights.rows(0, 47), kRowCounts)),
               std::invalid_argument);
  EXPECT_THROW((ops::TableBatch<float, TypeParam>(weights.reshaped({48, 2, 2}), kRowCounts)),
               std::invalid_argument);
}

TYPED_TEST(TableBatchTest, a_lookup_in_all_is_that_in_each) {
  constexpr std::int64_t kBatch = 9;
  constexpr std::int64_t kHotness = 4;
  for (std::int64_t const width : {1, 16, 33}) {
    auto const tables = this->random_tables(width);
    auto const keys =
        this->random.integers(kBatch * kTables * kHotness, -1'000'000'000, 1'000'000'000);
    Bags<TypeParam> const all(this->put(keys, {kBatch * kTables, kHotness}));
    auto const pooled =
        ops::embedding_lookup(tables, ops::hash_to_tables(tables, all, 11), Pooling::mean);
    EXPECT_EQ(pooled.shape(), (Shape{kBatch, kTables * width}));
    auto const values = to_host(pooled);
    for (std::int64_t table = 0; table < kTables; ++table) {
      SCOPED_TRACE(fmt::format("table {}, width {}", table, width));
      Integers own;
      for (std::int64_t sample = 0; sample < kBatch; ++sample) {
        auto const first = keys.begin() + (sample * kTables + table) * kHotness;
        own.insert(own.end(), first, first + kHotness);
      }
      auto const rows = ops::hash_to_bucket(
          this->put(own, {kBatch, kHotness}), kRowCounts[static_cast<std::size_t>(table)], 11);
      EXPECT_EQ(this->columns_of(values, table, width),
                to_host(ops::embedding_lookup(
                    tables.table(table), Bags<TypeParam>(rows), {.pooling = Pooling::mean})));
    }
  }
}

TYPED_TEST(TableBatchTest, jagged_bags_lead_to_the_rows_of_their_tables) {
  auto const tables = this->random_tables(4);
  // Each table has bags for two samples. The ids after the last bag belong to no bag.
  Integers const ids{6, 0, 39, 1, 5, 99, 99};
  Bags<TypeParam> const bags(this->put(ids), this->put(Integers{0, 1, 2, 4, 5, 5, 5}));
  auto const rows = ops::rows_of_tables(tables, bags);
  auto const given = to_host(rows.ids.template as<std::int64_t>());
  EXPECT_EQ(Integers(given.begin(), given.begin() + 5), (Integers{6, 7, 8 + 39, 8 + 1, 5}));
  auto const pooled = to_host(ops::embedding_lookup(tables, rows));
  EXPECT_THAT(Floats(pooled.begin() + 16, pooled.end()), ::testing::Each(0.0F)) << "empty bags";
}

TYPED_TEST(TableBatchTest, of_bags_some_of_which_exist_the_others_give_0) {
  auto const tables = this->random_tables(2);
  Bags<TypeParam> bags(this->put(Integers{1, 0, 2, 3, 0, 9}));
  bags.bag_count = this->scalar(3);
  auto const pooled = to_host(ops::embedding_lookup(tables, ops::rows_of_tables(tables, bags)));
  auto const weights = to_host(tables.weights());
  auto const row = [&](std::size_t number) {
    return Floats(weights.begin() + static_cast<std::ptrdiff_t>(2 * number),
                  weights.begin() + static_cast<std::ptrdiff_t>(2 * number + 2));
  };
  EXPECT_EQ(Floats(pooled.begin(), pooled.begin() + 2), row(1));
  EXPECT_EQ(Floats(pooled.begin() + 2, pooled.begin() + 4), row(7));
  EXPECT_EQ(Floats(pooled.begin() + 4, pooled.begin() + 6), row(8 + 2));
  EXPECT_THAT(Floats(pooled.begin() + 6, pooled.end()), ::testing::Each(0.0F));
}

TYPED_TEST(TableBatchTest, ids_may_lie_table_by_table) {
  auto const tables = this->random_tables(1);
  auto const by_table = this->put(Integers{6, 1, 2, 3, 0, 0, 9, 0, 30, 31, 32, 33}, {3, 2, 2});
  auto const rows = ops::rows_of_tables(tables, by_table);
  EXPECT_EQ(rows.bags(), 6);
  EXPECT_EQ(rows.hotness(), 2);
  EXPECT_EQ(to_host(rows.ids.template as<std::int64_t>()),
            (Integers{6, 1, 7, 7, 38, 39, 2, 3, -1, 7, 40, 41}));
  auto const keys = this->random.integers(3 * 2 * 2, -1000, 1000);
  Integers by_sample;
  for (std::size_t sample = 0; sample < 2; ++sample) {
    for (std::size_t table = 0; table < 3; ++table) {
      by_sample.insert(by_sample.end(),
                       {keys[table * 4 + sample * 2], keys[table * 4 + sample * 2 + 1]});
    }
  }
  EXPECT_EQ(to_host(ops::hash_to_tables(tables, this->put(keys, {3, 2, 2}), 5)
                        .ids.template as<std::int64_t>()),
            to_host(ops::hash_to_tables(tables, Bags<TypeParam>(this->put(by_sample, {6, 2})), 5)
                        .ids.template as<std::int64_t>()));
  expect_refused([&] { (void)ops::hash_to_tables(tables, this->put(keys, {2, 6})); }, "[2, 6]");
}

TYPED_TEST(TableBatchTest, an_id_that_a_table_does_not_have_is_reported) {
  auto const tables = this->random_tables(2);
  // The ids 7, 1 and -1 are out of range for their tables, although 7 and 1 are rows of other
  // tables.
  Bags<TypeParam> const bags(this->put(Integers{7, 1, 2, 3, 0, -1}));
  auto const count = this->scalar(0);
  auto const rows = ops::rows_of_tables(tables, bags, OutOfRange::count, count);
  EXPECT_EQ(to_host(rows.ids.template as<std::int64_t>()), (Integers{-1, -1, 10, 3, 7, -1}));
  EXPECT_EQ(to_host(count), (Integers{3}));
  NameScope const scope("user");
  auto const trapped =
      ops::rows_of_tables(tables, Bags<TypeParam>(this->put(Integers{0, 5, 0})), OutOfRange::trap);
  EXPECT_EQ(message_of<std::out_of_range>(
                [&] { (void)to_host(trapped.ids.template as<std::int64_t>()); }),
            "user/rows_of_tables: id 5 outside [0, 1) of table 1");
}

TYPED_TEST(TableBatchTest, refuses_what_does_not_fit) {
  using Batch = ops::TableBatch<float, TypeParam>;
  expect_refused([&] { Batch(this->device(), {}, 4); }, "no tables");
  expect_refused([&] { Batch(this->device(), {3, 0}, 4); }, "table 1", "0 rows");
  auto const tables = this->random_tables(2);
  expect_refused([&] { (void)tables.table(3); }, "table 3", "3");
  Bags<TypeParam> const uneven(this->put(Integers{1, 2, 3, 4}));
  expect_refused(
      [&] { (void)ops::hash_to_tables(tables, uneven); }, "hash_to_tables", "4 bags", "3 tables");
  expect_refused([&] { (void)ops::rows_of_tables(tables, uneven); }, "rows_of_tables", "4 bags");
  Bags<TypeParam> const bags(this->put(Integers{1, 0, 3}));
  expect_refused([&] { (void)ops::rows_of_tables(tables, bags, OutOfRange::count); },
                 "rows_of_tables",
                 "bad_id_count");
}

}  // namespace
}  // namespace msstream::testing
