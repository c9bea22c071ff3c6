// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>

#include <fmt/core.h>

namespace msstream::testing {
namespace {

using ops::EmbeddingTable;
using ops::EmbeddingTables;
using ops::Pooling;
using ops::TableBags;

template <class R>
class EmbeddingTablesGradientTest : public OpsTest<R> {};
TYPED_TEST_SUITE(EmbeddingTablesGradientTest, Runtimes, RuntimeNames);

TYPED_TEST(EmbeddingTablesGradientTest, rows_of_all_tables_in_order_each_in_its_width) {
  EmbeddingTables<TypeParam> const tables(
      this->device(),
      {{.weights = this->any({3, 2}), .default_id = 2},
       {.weights = this->any({2, 1}), .pooling = Pooling::mean, .hotness = 2}});
  TableBags<TypeParam> const bags{.ids = this->put(Integers{1, -1, 1, 0, 1, 5}), .batch = 2};
  auto const gradients =
      ops::embedding_tables_gradient(tables, bags, this->put(Floats{1, 2, 4, 3, 5, 8}, {2, 3}));
  EXPECT_EQ(gradients.values.shape(), (Shape{6 + 4, 2}));
  EXPECT_EQ(to_host(gradients.count).front(), 4);
  EXPECT_EQ(to_host(gradients.table_starts), (Integers{0, 2, 4}));
  auto const rows = to_host(gradients.rows);
  EXPECT_EQ(Integers(rows.begin(), rows.begin() + 4), (Integers{1, 2, 3, 4}));
  EXPECT_EQ(tables.first_row(1), 3);
  auto const values = to_host(gradients.values);
  EXPECT_EQ(Floats(values.begin(), values.begin() + 5), (Floats{1, 2, 3, 5, 2}));
  EXPECT_EQ(values[6], 2 + 8);
}

TYPED_TEST(EmbeddingTablesGradientTest, the_gradients_of_all_are_those_of_each) {
  constexpr std::int64_t kBatch = 50;
  std::vector<EmbeddingTable<TypeParam>> list;
  Integers ids;
  Integers offsets{0};
  for (auto const pooling : {Pooling::sum, Pooling::mean, Pooling::sqrtn}) {
    for (std::int64_t const width : {1, 33, 64}) {
      list.push_back({.weights = this->any({20, width}), .pooling = pooling, .default_id = 3});
      for (std::int64_t bag = 0; bag < kBatch; ++bag) {
        auto const own = this->random.integers(this->random.integer(0, 5), -1, 20);
        ids.insert(ids.end(), own.begin(), own.end());
        offsets.push_back(static_cast<std::int64_t>(ids.size()));
      }
    }
  }
  EmbeddingTables<TypeParam> const tables(this->device(), list);
  auto const weights =
      this->put(this->random.reals(static_cast<std::int64_t>(ids.size()), 0.5F, 1.5F));
  auto const output = this->random.reals(kBatch * tables.width());
  auto const all =
      ops::embedding_tables_gradient(tables,
                                     TableBags<TypeParam>{.ids = this->put(ids),
                                                          .batch = kBatch,
                                                          .offsets = this->put(offsets),
                                                          .weights = weights},
                                     this->put(output, {kBatch, tables.width()}));
  auto const rows = to_host(all.rows.rows(0, to_host(all.count).front()));
  auto const starts = to_host(all.table_starts);
  auto const values_of = [&](std::int64_t row, std::int64_t width) {
    auto const all_columns = all.values.rows(row, row + 1);
    return to_host(all_columns.reshaped({all_columns.count()}).rows(0, width));
  };
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    SCOPED_TRACE(fmt::format("table {}", t));
    auto const first = offsets.begin() + t * kBatch;
    ops::Bags<TypeParam> bags(this->put(ids), this->put(Integers(first, first + kBatch + 1)));
    bags.default_id = 3;
    bags.weights = weights;
    auto const width = std::get<0>(tables.table(t).weights).shape()[1];
    Floats columns;
    for (std::int64_t bag = 0; bag < kBatch; ++bag) {
      auto const row = output.begin() + bag * tables.width() + tables.first_column(t);
      columns.insert(columns.end(), row, row + width);
    }
    auto const each = ops::embedding_gradient(bags,
                                              ops::deduplicate(bags, 20),
                                              20,
                                              tables.table(t).pooling,
                                              this->put(columns, {kBatch, width}));
    auto const begin = starts[static_cast<std::size_t>(t)];
    auto const end = starts[static_cast<std::size_t>(t) + 1];
    ASSERT_EQ(to_host(each.count).front(), end - begin);
    auto const own_rows = to_host(each.ids.rows(0, end - begin));
    auto const own_values = to_host(each.values.rows(0, end - begin));
    for (auto u = begin; u < end; ++u) {
      auto const own = u - begin;
      EXPECT_EQ(rows[static_cast<std::size_t>(u)],
                tables.first_row(t) + own_rows[static_cast<std::size_t>(own)]);
      auto const values = values_of(u, width);
      for (std::int64_t c = 0; c < width; ++c) {
        ASSERT_NEAR(values[static_cast<std::size_t>(c)],
                    own_values[static_cast<std::size_t>(own * width + c)],
                    1e-5);
      }
    }
  }
}

TYPED_TEST(EmbeddingTablesGradientTest, an_empty_batch) {
  EmbeddingTables<TypeParam> const tables(this->device(), {{.weights = this->any({3, 2})}});
  auto const gradients = ops::embedding_tables_gradient(
      tables, TableBags<TypeParam>{.ids = this->put(Integers{}), .batch = 0}, this->any({0, 2}));
  EXPECT_EQ(to_host(gradients.count).front(), 0);
  EXPECT_EQ(to_host(gradients.table_starts), (Integers{0, 0}));
}

TYPED_TEST(EmbeddingTablesGradientTest, refuses_what_does_not_fit) {
  EmbeddingTables<TypeParam> const sum(this->device(), {{.weights = this->any({3, 2})}});
  EmbeddingTables<TypeParam> const largest(
      this->device(), {{.weights = this->any({3, 2}), .pooling = Pooling::max}});
  TableBags<TypeParam> const bags{.ids = this->put(Integers{0}), .batch = 1};
  expect_refused(
      [&] {
        (void)ops::embedding_tables_gradient(largest, bags, this->any({1, 2}));
      },
      "maximum");
  expect_refused(
      [&] {
        (void)ops::embedding_tables_gradient(sum, bags, this->any({1, 3}));
      },
      "[1, 3]",
      "[1, 2]");
}

}  // namespace
}  // namespace msstream::testing
