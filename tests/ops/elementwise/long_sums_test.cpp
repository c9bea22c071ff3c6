// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/dense.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/interaction.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/ops/layer_norm.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/ops/normalize.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/ops/segment.hpp>

#include <algorithm>
#include <cmath>

namespace msstream::testing {
namespace {

using ops::Bags;
using ops::Pooling;
using ops::SegmentIds;
using ops::SegmentReduction;

constexpr std::int64_t kVeryMany = std::int64_t{1} << 25;
/// A number of terms whose float32 sum, added one after the other, would be wrong by one part in a
/// thousand.
constexpr std::int64_t kMany = std::int64_t{1} << 20;
/// A term whose rounding errors do not cancel when many equal ones are added in float32.
constexpr float kTerm = 0.1F;
constexpr double kSumTolerance = 2e-6;

/// Tests the accuracy of sums that docs/limits.md promises. The expected values are float64 sums of
/// the float32 inputs.
template <class R>
class LongSumsTest : public OpsTest<R> {
 protected:
  [[nodiscard]] Tensor<float, R> terms(Shape const& shape, float term = kTerm) {
    return this->put(Floats(static_cast<std::size_t>(shape.count()), term), shape);
  }
  /// Returns the values 10^6 + i mod 8, where neighbouring float32 values are 0.06 apart.
  [[nodiscard]] static Floats large_offsets(std::int64_t count) {
    Floats values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 1e6F + static_cast<float>(i % 8);
    }
    return values;
  }
  /// Expects every element to be `expected`.
  static void expect_all(Tensor<float, R> const& actual, double expected, char const* what) {
    for (float const element : to_host(actual)) {
      ASSERT_NEAR(element / expected, 1.0, kSumTolerance) << what;
    }
  }
  /// Returns one bag that holds id 0 `count` times.
  [[nodiscard]] Bags<R> one_bag(std::int64_t count) {
    return Bags<R>(this->template any<std::int32_t>({count}),
                   this->put(std::vector<std::int32_t>{0, static_cast<std::int32_t>(count)}));
  }
};
TYPED_TEST_SUITE(LongSumsTest, Runtimes, RuntimeNames);

TYPED_TEST(LongSumsTest, many_tensors) {
  auto const term = this->terms({5});
  // One launch adds 64 tensors; between launches the sum is rounded to float32.
  for (std::size_t const count : {33U, 64U, 65U, 1000U}) {
    this->expect_all(ops::add(std::vector(count, term)),
                     static_cast<double>(kTerm) * static_cast<double>(count),
                     "add");
  }
}

TYPED_TEST(LongSumsTest, columns_of_a_batch_norm) {
  auto const values = this->large_offsets(kMany);
  ops::RunningStatistics<TypeParam> const running{this->terms({1}, 0.0F), this->terms({1}, 1.0F)};
  auto const one = this->terms({1}, 1.0F);
  auto const result = ops::batch_norm(
      this->put(values, {kMany, 1}), one, one, running, {.momentum = 1.0F, .epsilon = 0.0F});
  auto const statistics = to_host(result.statistics);
  EXPECT_EQ(double{statistics[0]} + statistics[1], 1e6 + 3.5);
  EXPECT_NEAR(statistics[2] * std::sqrt(5.25), 1.0, 1e-6);
  this->expect_all(
      ops::batch_norm_gradient(
          this->put(values, {kMany, 1}), one, result.statistics, this->terms({kMany, 1}))
          .bias.value(),
      double{kTerm} * kMany,
      "gradient of the bias");
}

TYPED_TEST(LongSumsTest, products_of_long_vectors) {
  constexpr std::int64_t kLong = 4096;
  auto const output = ops::dot_interaction(this->terms({1, kLong}), this->terms({1, 1, kLong}));
  // docs/limits.md promises kLong / 32 + 33 units.
  double const expected = double{kTerm} * kTerm * kLong;
  EXPECT_NEAR(to_host(output).back() / expected, 1.0, std::ldexp(kLong / 32 + 33, -24));
}

TYPED_TEST(LongSumsTest, bags_of_2_to_the_25) {
  // Sums 2^25 ids in one bag. One warp of a GPU sums the whole bag, which takes seconds, so the
  // size is tested only once.
  auto const mean = ops::embedding_lookup(
      this->terms({1, 1}, 1.0F), this->one_bag(kVeryMany), {.pooling = Pooling::mean});
  EXPECT_EQ(to_host(mean), Floats{1.0F});
}

TYPED_TEST(LongSumsTest, bags_of_all_widths_and_types_with_weights) {
  auto const count = kMany + 37;
  auto const n = static_cast<double>(count);
  auto bags = this->one_bag(count);
  for (std::int64_t const width : {1, 3, 4, 32, 130}) {
    SCOPED_TRACE(width);
    auto const table = this->terms({1, width});
    this->expect_all(
        ops::embedding_lookup(table, bags), double{kTerm} * static_cast<double>(count), "float32");
    auto const narrow = to_host(table);
    std::vector<bfloat16> halves;
    for (float const element : narrow) {
      halves.push_back(from_float<bfloat16>(element));
    }
    this->expect_all(ops::embedding_lookup<float>(this->put(halves, {1, width}), bags),
                     double{to_float(halves[0])} * n,
                     "bfloat16");
  }
  bags.weights = this->terms({count}, 0.3F);
  for (std::int64_t const width : {1, 32}) {
    auto const table = this->terms({1, width});
    auto const pooled = [&](Pooling pooling) {
      return ops::embedding_lookup(table, bags, {.pooling = pooling});
    };
    this->expect_all(pooled(Pooling::sum), double{kTerm} * 0.3F * n, "weighted sum");
    this->expect_all(pooled(Pooling::mean), kTerm, "weighted mean");
    this->expect_all(pooled(Pooling::sqrtn), kTerm * std::sqrt(n), "weighted sqrtn");
  }
}

TYPED_TEST(LongSumsTest, long_and_short_bags_side_by_side) {
  // A warp of a GPU sums several bags: a long bag must not disturb the short ones, and a bad id
  // must not disturb a sum.
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> offsets{0};
  Doubles expected;
  auto const table = this->random.reals(16);
  for (std::int64_t const length : {3, 0, 33, 70'000, 1, 64, 65, 32}) {
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      auto const id = static_cast<std::int32_t>(this->random.integer(-1, 16));
      ids.push_back(id);
      sum += id >= 0 && id < 16 ? double{table[static_cast<std::size_t>(id)]} : 0.0;
    }
    offsets.push_back(static_cast<std::int32_t>(ids.size()));
    expected.push_back(sum);
  }
  Bags<TypeParam> const bags(this->put(ids), this->put(offsets));
  for (std::int64_t const width : {1, 4, 32}) {
    Floats rows;
    Doubles columns;
    for (float const element : table) {
      rows.insert(rows.end(), static_cast<std::size_t>(width), element);
    }
    for (double const sum : expected) {
      columns.insert(columns.end(), static_cast<std::size_t>(width), sum);
    }
    // Compares relative to the magnitudes of the terms, since a sum of random signs is much
    // smaller.
    expect_near(
        to_host(ops::embedding_lookup(this->put(rows, {16, width}), bags)), columns, 70'000 * 1e-7);
  }
}

TYPED_TEST(LongSumsTest, bags_of_many_tables) {
  std::vector<ops::EmbeddingTable<TypeParam>> list;
  for (std::int64_t const width : {3, 32}) {
    list.push_back({.weights = this->terms({1, width}), .pooling = Pooling::sum});
    list.push_back({.weights = this->terms({1, width}), .pooling = Pooling::mean});
  }
  ops::EmbeddingTables<TypeParam> const tables(this->device(), list);
  Integers offsets{0, kMany, 2 * kMany, 3 * kMany, 4 * kMany};
  ops::TableBags<TypeParam> const bags{.ids = this->template any<std::int64_t>({4 * kMany}),
                                       .batch = 1,
                                       .offsets = this->put(offsets)};
  auto const pooled = to_host(ops::embedding_lookup(tables, bags));
  Doubles expected;
  for (std::int64_t const width : {3, 32}) {
    expected.insert(expected.end(), static_cast<std::size_t>(width), double{kTerm} * double{kMany});
    expected.insert(expected.end(), static_cast<std::size_t>(width), kTerm);
  }
  expect_near(pooled, expected, kSumTolerance);
}

TYPED_TEST(LongSumsTest, segments_of_2_to_the_25) {
  for (float const term : {1.0F, kTerm}) {
    auto const values = this->terms({kVeryMany, 1}, term);
    auto const offsets = this->put(Integers{0, kVeryMany});
    this->expect_all(ops::segment_reduce(values, offsets, SegmentReduction::mean), term, "mean");
    this->expect_all(ops::segment_reduce(values, offsets, SegmentReduction::sum),
                     double{term} * kVeryMany,
                     "sum");
  }
}

TYPED_TEST(LongSumsTest, segments_in_every_form) {
  for (std::int64_t const width : {1, 3, 16, 128}) {
    SCOPED_TRACE(width);
    auto const rows = std::min(kMany, 8 * kMany / width);
    auto const n = static_cast<double>(rows);
    auto const values = this->terms({rows, width});
    auto const ids = this->template any<std::int32_t>({rows});
    for (auto const& [reduction, expected] :
         {std::pair{SegmentReduction::sum, double{kTerm} * n},
          std::pair{SegmentReduction::mean, double{kTerm}},
          std::pair{SegmentReduction::sqrtn, double{kTerm} * std::sqrt(n)}}) {
      this->expect_all(ops::segment_reduce(values, this->put(Integers{0, rows}), reduction),
                       expected,
                       "offsets");
      this->expect_all(ops::segment_reduce(values, {ids, 1, SegmentIds::sorted}, reduction),
                       expected,
                       "sorted ids");
      this->expect_all(ops::segment_reduce(values, {ids, 1, SegmentIds::unsorted}, reduction),
                       expected,
                       "unsorted ids");
    }
  }
}

TYPED_TEST(LongSumsTest, short_and_long_segments_side_by_side) {
  Integers const lengths{1, 40, 33, 0, 5000, 32, 31, 200, 7};
  Integers offsets{0};
  Doubles expected;
  for (auto const length : lengths) {
    offsets.push_back(offsets.back() + length);
    expected.push_back(double{kTerm} * static_cast<double>(length));
  }
  for (std::int64_t const width : {1, 20, 128}) {
    Doubles columns;
    for (double const sum : expected) {
      columns.insert(columns.end(), static_cast<std::size_t>(width), sum);
    }
    expect_near(
        to_host(ops::segment_reduce(
            this->terms({offsets.back(), width}), this->put(offsets), SegmentReduction::sum)),
        columns,
        kSumTolerance);
  }
}

TYPED_TEST(LongSumsTest, sums_along_every_axis) {
  auto const n = static_cast<double>(kMany);
  this->expect_all(ops::sum(this->terms({kVeryMany})), double{kTerm} * kVeryMany, "all");
  this->expect_all(ops::mean(this->terms({kVeryMany}, 1.0F)), 1.0, "mean of ones");
  this->expect_all(ops::sum(this->terms({1, kVeryMany}), 1), double{kTerm} * kVeryMany, "one row");
  this->expect_all(ops::sum(this->terms({8, kMany}), 1), double{kTerm} * n, "rows");
  for (std::int64_t const inner : {2, 5, 32, 33}) {
    SCOPED_TRACE(inner);
    constexpr std::int64_t kRows = kMany / 4;
    this->expect_all(ops::sum(this->terms({kRows, inner}), 0), double{kTerm} * kRows, "columns");
  }
  // With 2^17 columns, one GPU thread sums a whole column.
  constexpr std::int64_t kColumns = std::int64_t{1} << 17;
  this->expect_all(ops::mean(this->terms({200, kColumns}), 0), kTerm, "many columns");
}

TYPED_TEST(LongSumsTest, means_of_large_offsets) {
  auto const values = this->large_offsets(kMany);
  constexpr double kMean = 1e6 + 3.5;
  auto const row = this->put(values, {1, kMany});
  auto const column = this->put(values, {kMany, 1});
  this->expect_all(ops::mean(row), kMean, "all");
  this->expect_all(ops::mean(row, 1), kMean, "a row");
  this->expect_all(
      ops::segment_reduce(column, this->put(Integers{0, kMany}), SegmentReduction::mean),
      kMean,
      "a segment");
  std::vector<std::int32_t> ids(static_cast<std::size_t>(kMany));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(i % 8);
  }
  Bags<TypeParam> const bag(this->put(ids),
                            this->put(std::vector{0, static_cast<std::int32_t>(kMany)}));
  auto const table = this->put(this->large_offsets(8), {8, 1});
  this->expect_all(ops::embedding_lookup(table, bag, {.pooling = Pooling::mean}), kMean, "a bag");
}

TYPED_TEST(LongSumsTest, gradients_of_rows_that_many_places_share) {
  for (std::int64_t const width : {1, 3, 32}) {
    SCOPED_TRACE(width);
    auto const gradient = this->terms({kMany, width});
    Bags<TypeParam> const bags(this->template any<std::int32_t>({kMany, 1}));
    auto const rows =
        ops::embedding_gradient(bags, ops::deduplicate(bags, 1), 1, Pooling::sum, gradient);
    this->expect_all(rows.values.rows(0, 1), double{kTerm} * double{kMany}, "a table");
  }
  ops::EmbeddingTables<TypeParam> const tables(
      this->device(), {{.weights = this->terms({1, 8}), .pooling = Pooling::sum, .hotness = 1}});
  auto const of_all = ops::embedding_tables_gradient(
      tables,
      ops::TableBags<TypeParam>{.ids = this->template any<std::int64_t>({kMany}), .batch = kMany},
      this->terms({kMany, 8}));
  this->expect_all(of_all.values.rows(0, 1), double{kTerm} * double{kMany}, "many tables");
}

TYPED_TEST(LongSumsTest, gradients_of_parameters_over_a_long_batch) {
  auto const n = static_cast<double>(kMany);
  auto const ones = this->terms({kMany, 2}, 1.0F);
  auto const dense = ops::dense_gradient(ones,
                                         this->terms({2, 3}),
                                         this->terms({kMany, 3}),
                                         ops::Activation::none,
                                         this->terms({kMany, 3}),
                                         false);
  this->expect_all(dense.bias, double{kTerm} * n, "bias");
  // Uses rows of {-1, 1}, which are already normalised.
  Floats input(static_cast<std::size_t>(2 * kMany), 1.0F);
  for (std::size_t i = 0; i < input.size(); i += 2) {
    input[i] = -1.0F;
  }
  auto const x = this->put(input, {kMany, 2});
  auto const weight = this->terms({2}, 1.0F);
  auto const normal = ops::layer_norm(x, weight, weight, 0.0F);
  auto const gradients = ops::layer_norm_gradient(
      x, weight, normal, this->terms({kMany, 2}), {.input = false, .parameters = true});
  this->expect_all(*gradients.bias, double{kTerm} * n, "bias");
  expect_near(to_host(*gradients.weight), {-double{kTerm} * n, double{kTerm} * n}, kSumTolerance);
}

TYPED_TEST(LongSumsTest, softmaxes_of_long_rows) {
  // The terms of the softmax's sum are 1 and exp(-2.3). Adding many equal terms adds up their
  // rounding errors.
  Floats logits(static_cast<std::size_t>(kMany), -2.3F);
  logits[0] = 0.0F;
  double const sum = 1 + static_cast<double>(kMany - 1) * std::exp(double{-2.3F});
  auto const row = this->put(logits, {1, kMany});
  auto const column = this->put(logits, {kMany, 1});
  auto const offsets = this->put(Integers{0, kMany});
  EXPECT_NEAR(to_host(ops::softmax(row))[0] * sum, 1.0, kSumTolerance);
  EXPECT_NEAR(to_host(ops::jagged_softmax(column, offsets))[0] * sum, 1.0, kSumTolerance);
  auto const entropy = ops::softmax_cross_entropy(row, this->put(Integers{0}));
  EXPECT_NEAR(to_host(entropy.losses)[0], std::log(sum), 1e-5);
  // Passes outputs that are all 0.1, which no softmax gives, because they show the sum: for n
  // gradients g the result is 0.1 (g - 0.1 n g).
  double const expected = kTerm * (1.0 - double{kTerm} * double{kMany});
  this->expect_all(ops::softmax_gradient(this->terms({1, kMany}), this->terms({1, kMany}, 1.0F)),
                   expected,
                   "softmax_gradient");
  this->expect_all(
      ops::jagged_softmax_gradient(this->terms({kMany, 1}), this->terms({kMany, 1}, 1.0F), offsets),
      expected,
      "jagged_softmax_gradient");
}

}  // namespace
}  // namespace msstream::testing
