// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding_gradient/gradient_case.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/ops/embedding.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>

namespace msstream::testing {
namespace {

using ops::Bags;
using ops::Pooling;
using ops::kernels::testing::GradientCase;
using ops::kernels::testing::kPoolings;
using ops::kernels::testing::ReferenceGradients;
using ::testing::ElementsAre;

constexpr std::int64_t kGradientRows = 20;

template <class R>
class EmbeddingGradientOpsTest : public OpsTest<R> {
 protected:
  template <class Id>
  Bags<R> bags_of(GradientCase const& some) {
    std::vector<Id> const ids(some.ids.begin(), some.ids.end());
    std::vector<Id> const offsets(some.offsets.begin(), some.offsets.end());
    auto bags = !some.offsets.empty() ? Bags<R>(this->put(ids), this->put(offsets))
                : some.hotness > 1    ? Bags<R>(this->put(ids, {some.bags, some.hotness}))
                                      : Bags<R>(this->put(ids));
    if (some.existing < some.bags) {
      bags.bag_count = this->scalar(some.existing);
    }
    if (!some.weights.empty()) {
      bags.weights = this->put(some.weights, bags.ids.shape());
    }
    if (some.default_id >= 0) {
      bags.default_id = some.default_id;
    }
    return bags;
  }

  /// Returns random cases with and without weights and a default id, in which all, some or none of
  /// the bags exist. The bags have a fixed hotness of 1 or 3, or are jagged with unused elements at
  /// the end.
  std::vector<GradientCase> random_cases(Pooling pooling) {
    std::vector<GradientCase> out;
    for (std::int64_t const hotness : {1, 3, 0}) {
      for (std::int64_t const existing : {17, 9, 0}) {
        Integers offsets{0};
        for (int bag = 0; bag < 17; ++bag) {
          offsets.push_back(offsets.back() + this->random.integer(0, 6));
        }
        auto const ids = [&](std::int64_t count) {
          return this->random.integers(count, -9, kGradientRows + 1);
        };
        auto some = hotness > 0 ? GradientCase::fixed(ids(17 * hotness), hotness)
                                : GradientCase::jagged(ids(offsets.back() + 4), offsets);
        some.existing = existing;
        some.rows = kGradientRows;
        some.pooling = pooling;
        out.push_back(some);
        if (pooling != Pooling::max) {
          some.weights = this->random.reals(some.capacity(), 0.5F, 2.0F);
        }
        if (pooling != Pooling::none) {
          some.default_id = 3;
        }
        out.push_back(some);
      }
    }
    return out;
  }

  /// Returns the values of a row-sparse gradient by row, and expects that its ids ascend.
  static std::map<std::int64_t, Floats> by_row(ops::RowGradients<R> const& gradients) {
    auto const count = to_host(gradients.count).front();
    auto const ids = to_host(gradients.ids.rows(0, count));
    auto const values = to_host(gradients.values.rows(0, count));
    auto const width = gradients.values.shape()[1];
    std::map<std::int64_t, Floats> rows;
    for (std::int64_t u = 0; u < count; ++u) {
      auto const id = ids.at(static_cast<std::size_t>(u));
      EXPECT_TRUE(rows.empty() || rows.rbegin()->first < id) << "ids are not ascending";
      rows[id] = Floats(values.begin() + u * width, values.begin() + (u + 1) * width);
    }
    return rows;
  }

  /// Returns an argmax as max pooling could give it: for each bag the last position with an id of
  /// the table, and -1 for a bag without one.
  static std::vector<std::int32_t> some_argmax(GradientCase const& some) {
    std::vector<std::int32_t> argmax(static_cast<std::size_t>(some.bags * some.width), -1);
    some.for_each_place([&](std::int64_t, std::int64_t place, std::int64_t row, double) {
      std::fill_n(argmax.begin() + row * some.width, some.width, static_cast<std::int32_t>(place));
    });
    return argmax;
  }

  template <class T, class Id>
  void expect_gradient(GradientCase const& some) {
    SCOPED_TRACE(fmt::format("pooling {}, width {}", static_cast<int>(some.pooling), some.width));
    std::vector<T> upstream;
    for (auto const value : this->random.reals(some.output_rows() * some.width)) {
      upstream.push_back(from_float<T>(value));
    }
    std::optional<Tensor<std::int32_t, R>> argmax;
    std::vector<std::int32_t> winners;
    if (some.pooling == Pooling::max) {
      winners = some_argmax(some);
      argmax = this->put(winners, {some.bags, some.width});
    }
    auto const bags = this->template bags_of<Id>(some);
    auto const found =
        by_row(ops::embedding_gradient(bags,
                                       ops::deduplicate(bags, kGradientRows),
                                       kGradientRows,
                                       some.pooling,
                                       this->put(upstream, {some.output_rows(), some.width}),
                                       argmax));
    ReferenceGradients const expected(some, upstream, winners);
    ASSERT_EQ(found.size(), expected.sums.size());
    for (auto const& [id, row] : expected.sums) {
      ASSERT_TRUE(found.contains(id)) << "row " << id;
      expect_near(found.at(id), row);
    }
  }
};
TYPED_TEST_SUITE(EmbeddingGradientOpsTest, Runtimes, RuntimeNames);

TYPED_TEST(EmbeddingGradientOpsTest, agrees_with_double_for_every_pooling) {
  for (auto const pooling : kPoolings) {
    for (std::int64_t const width : {1, 5, 16}) {
      for (auto some : this->random_cases(pooling)) {
        some.width = width;
        this->template expect_gradient<float, std::int64_t>(some);
        this->template expect_gradient<float, std::int32_t>(some);
        this->template expect_gradient<float16, std::int64_t>(some);
        this->template expect_gradient<bfloat16, std::int32_t>(some);
      }
    }
  }
}

TYPED_TEST(EmbeddingGradientOpsTest, counts_that_are_too_large_do_not_lead_out_of_the_memory) {
  Bags<TypeParam> const jagged(this->put(Integers{0, 1, 2}), this->put(Integers{0, 2, 1'000'000}));
  EXPECT_THAT(to_host(ops::deduplicate(jagged, 4).count), ElementsAre(2));
}

TYPED_TEST(EmbeddingGradientOpsTest, merging_adds_equal_rows_once) {
  auto const part = [&](Integers const& ids, std::int64_t count, Floats const& values) {
    return ops::RowGradients<TypeParam>{
        this->put(ids),
        this->scalar(count),
        this->put(values, {static_cast<std::int64_t>(ids.size()), 2})};
  };
  auto const nan = std::nanf("");
  // Puts a valid id and NaNs beyond the count of the first gradient, as an operation may leave
  // them.
  std::vector const parts = {part({1, 4, 3}, 2, {1, 256, 2, 2, nan, nan}),
                             part({0, 1}, 2, {3, 3, 4, 1}),
                             part({5}, 0, {nan, nan}),
                             part({1, 4}, 2, {5, -128, 6, 6})};
  auto const merged = ops::merge_row_gradients(parts, kGradientRows);
  // The values are whole numbers, so that the sums are exact in any order of additions.
  EXPECT_EQ(this->by_row(merged),
            (std::map<std::int64_t, Floats>{{0, {3, 3}}, {1, {10, 129}}, {4, {8, 8}}}));
  EXPECT_EQ(this->by_row(ops::merge_row_gradients(std::vector{parts[1]}, kGradientRows)),
            (std::map<std::int64_t, Floats>{{0, {3, 3}}, {1, {4, 1}}}));
}

TYPED_TEST(EmbeddingGradientOpsTest, merging_takes_ids_of_views_of_the_table) {
  auto const part = [&](Integers const& ids, Floats const& values) {
    auto const count = static_cast<std::int64_t>(ids.size());
    return ops::RowGradients<TypeParam>{
        this->put(ids), this->scalar(count), this->put(values, {count, 1})};
  };
  // Merges gradients of rows 2 to 4, of the whole table, and of a longer tensor that begins three
  // rows before the table.
  std::vector const parts = {
      part({0, 1}, {1, 2}), part({1, 2}, {10, 20}), part({1, 2, 3, 5, 99}, {7, 7, 100, 200, 7})};
  EXPECT_EQ(this->by_row(ops::merge_row_gradients(parts, 4, {2, 0, -3})),
            (std::map<std::int64_t, Floats>{{0, {100}}, {1, {10}}, {2, {221}}, {3, {2}}}));
  expect_refused(
      [&] {
        (void)ops::merge_row_gradients(parts, 4, {2, 0});
      },
      "merge_row_gradients",
      "2 first rows",
      "3 parts");
}

TYPED_TEST(EmbeddingGradientOpsTest, takes_no_bags_and_no_ids) {
  for (auto const& shape : {Shape{0}, Shape{0, 4}, Shape{4, 0}}) {
    Bags<TypeParam> const bags(this->template any<std::int64_t>(shape));
    auto const gradient = ops::embedding_gradient(
        bags, ops::deduplicate(bags, 3), 3, Pooling::mean, this->any({shape[0], 2}));
    EXPECT_TRUE(this->by_row(gradient).empty());
  }
}

TYPED_TEST(EmbeddingGradientOpsTest, the_gradient_of_weights_has_their_shape) {
  auto const table = this->put(Floats{1, 2, 3, 4}, {2, 2});
  Bags<TypeParam> bags(this->put(Integers{0, 1, 1, -1}, {2, 2}));
  bags.weights = this->put(Floats{1, 1, 1, 1}, {2, 2});
  auto const output_gradient = this->put(Floats{1, 10, 2, 20}, {2, 2});
  auto const gradient = ops::embedding_weight_gradient(table, bags, Pooling::sum, output_gradient);
  EXPECT_EQ(gradient.shape(), (Shape{2, 2}));
  EXPECT_EQ(to_host(gradient), (Floats{21, 43, 86, 0}));
  expect_refused(
      [&] { (void)ops::embedding_weight_gradient(table, bags, Pooling::mean, output_gradient); },
      "embedding_weight_gradient");
  expect_refused(
      [&] {
        (void)ops::embedding_weight_gradient(table, bags, Pooling::sum, this->any({2, 3}));
      },
      "embedding_weight_gradient",
      "[2, 3]");
}

TYPED_TEST(EmbeddingGradientOpsTest, refuses_shapes_and_types_that_do_not_fit) {
  auto const ids = [&](Shape const& shape) { return this->template any<std::int64_t>(shape); };
  Bags<TypeParam> const bags(ids({4}));
  auto many_counts = bags;
  many_counts.bag_count = ids({2});
  expect_refused([&] { (void)ops::deduplicate(many_counts, 3); }, "bag_count", "[2]");

  auto const unique = ops::deduplicate(bags, 3);
  auto const gradient = [&](auto const& which, auto const& grouped, auto const& dy) {
    return [=] { (void)ops::embedding_gradient(which, grouped, 3, Pooling::sum, dy); };
  };
  expect_refused(gradient(bags, unique, this->any({8})), "embedding_gradient", "[8]");
  expect_refused(gradient(bags, unique, this->any({3, 2})), "embedding_gradient", "[3, 2]", "4");
  expect_refused(gradient(bags, unique, ids({4, 2})), "embedding_gradient", "int64");
  expect_refused(gradient(bags, ops::deduplicate(Bags<TypeParam>(ids({5})), 3), this->any({4, 2})),
                 "embedding_gradient",
                 "[5]");
  expect_refused(
      [&] {
        (void)ops::embedding_gradient(bags, unique, 3, Pooling::max, this->any({4, 2}));
      },
      "embedding_gradient",
      "argmax");

  using Parts = std::vector<ops::RowGradients<TypeParam>>;
  auto const merge = [&](Parts const& parts) {
    return [=] { (void)ops::merge_row_gradients(parts, kGradientRows); };
  };
  ops::RowGradients<TypeParam> const good{ids({2}), ids({}), this->any({2, 3})};
  expect_refused(merge({}), "merge_row_gradients");
  expect_refused(merge({good, {ids({2}), ids({}), this->any({2, 4})}}),
                 "merge_row_gradients",
                 "[2, 3]",
                 "[2, 4]");
  expect_refused(merge({{ids({2}), ids({}), this->any({6})}}), "merge_row_gradients", "[6]");
  expect_refused(
      merge({{ids({3}), ids({}), this->any({2, 3})}}), "merge_row_gradients", "[3]", "[2, 3]");
}

}  // namespace
}  // namespace msstream::testing
