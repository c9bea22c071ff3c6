// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>

#include <fmt/core.h>

#include <limits>
#include <optional>
#include <vector>

namespace msstream::testing {
namespace {

using ops::EmbeddingTable;
using ops::EmbeddingTables;
using ops::Pooling;
using ops::TableBags;

template <class R>
class EmbeddingTablesGradientTest : public OpsTest<R> {
 protected:
  /// Expects of tables of several widths with the given poolings that the gradient of each is the
  /// gradient of a lookup in this table alone.
  void expect_those_of_each(std::vector<Pooling> const& poolings, bool is_weighted) {
    constexpr std::int64_t kBatch = 50;
    std::vector<EmbeddingTable<R>> list;
    Integers ids;
    Integers offsets{0};
    for (auto const pooling : poolings) {
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
    EmbeddingTables<R> const tables(this->device(), list);
    std::optional<Tensor<float, R>> weights;
    if (is_weighted) {
      weights = this->put(this->random.reals(static_cast<std::int64_t>(ids.size()), 0.5F, 1.5F));
    }
    auto const output = this->random.reals(kBatch * tables.width());
    TableBags<R> const all_bags{
        .ids = this->put(ids), .batch = kBatch, .offsets = this->put(offsets), .weights = weights};
    std::optional<Tensor<std::int32_t, R>> all_argmax;
    if (!is_weighted) {
      all_argmax.emplace(this->device(), tables.argmax_shape(kBatch));
      (void)ops::embedding_lookup(tables, all_bags, {.argmax = all_argmax});
    }
    auto const all = ops::embedding_tables_gradient(
        tables, all_bags, this->put(output, {kBatch, tables.width()}), all_argmax);
    auto const rows = to_host(all.rows.rows(0, to_host(all.count).front()));
    auto const starts = to_host(all.table_starts);
    auto const values_of = [&](std::int64_t row, std::int64_t width) {
      auto const all_columns = all.values.rows(row, row + 1);
      return to_host(all_columns.reshaped({all_columns.count()}).rows(0, width));
    };
    for (std::int64_t t = 0; t < tables.tables(); ++t) {
      SCOPED_TRACE(fmt::format("table {}", t));
      auto const first = offsets.begin() + t * kBatch;
      ops::Bags<R> bags(this->put(ids), this->put(Integers(first, first + kBatch + 1)));
      bags.default_id = 3;
      bags.weights = weights;
      auto const width = std::get<0>(tables.table(t).weights).shape()[1];
      Floats columns;
      for (std::int64_t bag = 0; bag < kBatch; ++bag) {
        auto const row = output.begin() + bag * tables.width() + tables.first_column(t);
        columns.insert(columns.end(), row, row + width);
      }
      auto const pooling = tables.table(t).pooling;
      std::optional<Tensor<std::int32_t, R>> argmax;
      if (pooling == Pooling::max) {
        argmax.emplace(this->device(), Shape{kBatch, width});
        (void)ops::embedding_lookup(
            std::get<0>(tables.table(t).weights), bags, {.pooling = pooling, .argmax = argmax});
      }
      auto const each = ops::embedding_gradient(bags,
                                                ops::deduplicate(bags, 20),
                                                20,
                                                pooling,
                                                this->put(columns, {kBatch, width}),
                                                argmax);
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
};
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
  this->expect_those_of_each({Pooling::sum, Pooling::mean, Pooling::sqrtn}, true);
}

TYPED_TEST(EmbeddingTablesGradientTest, maxima_have_the_gradients_that_each_table_has) {
  this->expect_those_of_each({Pooling::max, Pooling::mean, Pooling::max}, false);
}

TYPED_TEST(EmbeddingTablesGradientTest, maxima_of_one_id_need_no_argmax) {
  EmbeddingTables<TypeParam> const tables(
      this->device(),
      {{.weights = this->any({3, 1}), .pooling = Pooling::max, .default_id = 2},
       {.weights = this->any({2, 1}), .hotness = 2}});
  TableBags<TypeParam> const bags{.ids = this->put(Integers{1, -1, 1, 0, 1, 5}), .batch = 2};
  auto const gradients =
      ops::embedding_tables_gradient(tables, bags, this->put(Floats{1, 2, 4, 3}, {2, 2}));
  EXPECT_EQ(to_host(gradients.table_starts), (Integers{0, 2, 4}));
  auto const rows = to_host(gradients.rows);
  auto const values = to_host(gradients.values);
  EXPECT_EQ(Integers(rows.begin(), rows.begin() + 4), (Integers{1, 2, 3, 4}));
  EXPECT_EQ(Floats(values.begin(), values.begin() + 4), (Floats{1, 4, 2, 5}));
}

// The second table has the offsets {0, 2, 9, 4}, so only its first bag is good. Its other bags take
// the row of the default id, whose place follows the places of all ids.
TYPED_TEST(EmbeddingTablesGradientTest, maxima_of_bags_with_bad_offsets_and_of_empty_bags) {
  for (bool const has_default : {false, true}) {
    EmbeddingTables<TypeParam> const tables(
        this->device(),
        {{.weights = this->put(Floats{7, 8}, {2, 1})},
         {.weights = this->put(Floats{1, 2, 3, 4}, {4, 1}),
          .pooling = Pooling::max,
          .default_id = has_default ? std::optional<std::int64_t>(0) : std::nullopt}});
    TableBags<TypeParam> const bags{
        .ids = this->put(std::vector<std::int32_t>{3, 1, 1, 2}),
        .batch = 3,
        .offsets = this->put(std::vector<std::int32_t>{0, 0, 0, 0, 2, 9, 4})};
    Tensor<std::int32_t, TypeParam> const argmax(this->device(), tables.argmax_shape(3));
    auto const pooled = ops::embedding_lookup(tables, bags, {.argmax = argmax});
    EXPECT_EQ(to_host(pooled),
              has_default ? (Floats{0, 4, 0, 1, 0, 1}) : (Floats{0, 4, 0, 0, 0, 0}));
    EXPECT_EQ(to_host(argmax),
              has_default ? (std::vector<std::int32_t>{0, 4 + 4, 4 + 5})
                          : (std::vector<std::int32_t>{0, -1, -1}));
    auto const gradients = ops::embedding_tables_gradient(
        tables, bags, this->put(Floats{10, 1, 10, 2, 10, 4}, {3, 2}), std::optional(argmax));
    auto const count = to_host(gradients.count).front();
    // Row 2 + id of all tables. The good bag has the ids 3 and 1, of which 3 has the maximum.
    EXPECT_EQ(to_host(gradients.rows.rows(0, count)),
              has_default ? (Integers{2, 3, 5}) : (Integers{3, 5}));
    EXPECT_EQ(to_host(gradients.values.rows(0, count)),
              has_default ? (Floats{6, 0, 1}) : (Floats{0, 1}));
  }
}

TYPED_TEST(EmbeddingTablesGradientTest, infinite_gradients_reach_the_maximum_alone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EmbeddingTables<TypeParam> const tables(
      this->device(),
      {{.weights = this->put(Floats{1, 2, 3}, {3, 1}), .pooling = Pooling::max, .hotness = 3}});
  TableBags<TypeParam> const bags{.ids = this->put(Integers{0, 2, 1}), .batch = 1};
  Tensor<std::int32_t, TypeParam> const argmax(this->device(), tables.argmax_shape(1));
  (void)ops::embedding_lookup(tables, bags, {.argmax = argmax});
  EXPECT_EQ(to_host(argmax).front(), 1);
  auto const gradients = ops::embedding_tables_gradient(
      tables, bags, this->put(Floats{kInfinity}, {1, 1}), std::optional(argmax));
  EXPECT_EQ(to_host(gradients.values.rows(0, 3)), (Floats{0, 0, kInfinity}));
}

TYPED_TEST(EmbeddingTablesGradientTest, weights_of_all_have_the_gradients_of_each) {
  constexpr std::int64_t kBatch = 21;
  std::vector<EmbeddingTable<TypeParam>> list;
  Integers ids;
  Integers offsets{0};
  for (std::int64_t const width : {1, 3, 4, 32, 33, 130}) {
    list.push_back({.weights = this->random_tensor({20, width}),
                    .pooling = width == 3 ? Pooling::mean : Pooling::sum,
                    .default_id = 3});
    for (std::int64_t bag = 0; bag < kBatch; ++bag) {
      auto const own = this->random.integers(this->random.integer(0, 5), -1, 20);
      ids.insert(ids.end(), own.begin(), own.end());
      offsets.push_back(static_cast<std::int64_t>(ids.size()));
    }
  }
  ids.push_back(1);  // in no bag
  EmbeddingTables<TypeParam> const tables(this->device(), list);
  auto const weights = this->random_tensor({std::ssize(ids)});
  auto const output = this->random.reals(kBatch * tables.width());
  auto const found = to_host(
      ops::embedding_tables_weight_gradient(tables,
                                            TableBags<TypeParam>{.ids = this->put(ids),
                                                                 .batch = kBatch,
                                                                 .offsets = this->put(offsets),
                                                                 .weights = weights},
                                            this->put(output, {kBatch, tables.width()})));
  Doubles expected(ids.size(), 0.0);
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    auto const table = std::get<0>(tables.table(t).weights);
    auto const rows = to_host(table);
    auto const width = table.shape()[1];
    for (std::int64_t bag = 0; bag < kBatch; ++bag) {
      auto const at = static_cast<std::size_t>(t * kBatch + bag);
      for (auto place = offsets[at]; place < offsets[at + 1]; ++place) {
        auto const id = ids[static_cast<std::size_t>(place)];
        bool const has_gradient = width != 3 && id >= 0 && id < 20;
        for (std::int64_t c = 0; c < width && has_gradient; ++c) {
          expected[static_cast<std::size_t>(place)] +=
              double{rows[static_cast<std::size_t>(id * width + c)]} *
              output[static_cast<std::size_t>(bag * tables.width() + tables.first_column(t) + c)];
        }
      }
    }
  }
  expect_near(found, expected, 1e-5);
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
  TableBags<TypeParam> const bags{
      .ids = this->put(Integers{0}), .batch = 1, .offsets = this->put(Integers{0, 1})};
  expect_refused(
      [&] {
        (void)ops::embedding_tables_gradient(largest, bags, this->any({1, 2}));
      },
      "Pooling::max",
      "no argmax");
  auto const argmax = this->template any<std::int32_t>({1, 3});
  expect_refused(
      [&] {
        (void)ops::embedding_tables_gradient(
            largest, bags, this->any({1, 2}), std::optional(argmax));
      },
      "argmax of shape [1, 3]",
      "[1, 2]");
  expect_refused([&] { (void)ops::embedding_lookup(largest, bags, {.argmax = argmax}); },
                 "argmax of shape [1, 3]",
                 "[1, 2]");
  expect_refused([&] { (void)ops::embedding_lookup(sum, bags, {.argmax = argmax}); },
                 "argmax of shape [1, 3]",
                 "[1, 0]");
  expect_refused(
      [&] {
        (void)ops::embedding_tables_weight_gradient(sum, bags, this->any({1, 3}));
      },
      "embedding_tables_weight_gradient",
      "[1, 3]");
  expect_refused(
      [&] {
        (void)ops::embedding_tables_gradient(sum, bags, this->any({1, 3}));
      },
      "[1, 3]",
      "[1, 2]");
}

}  // namespace
}  // namespace msstream::testing
