// SPDX-License-Identifier: Apache-2.0
// Tests of metrics of the rank of one target in each row.
#include "metrics/metrics_fixture.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::expect_refused;
using msstream::testing::RuntimeNames;
using msstream::testing::Runtimes;

/// Rows of scores, and the target of each.
struct Ranking {
  std::int64_t columns;
  Floats scores;
  Integers targets;
  Floats weights = {};

  /// Computes the weighted mean of discount(rank) over the rows, where the target of a row has the
  /// mean discount of the ranks of its ties.
  template <class Discount>
  [[nodiscard]] double mean(std::int64_t k, Discount const& discount) const {
    double sum = 0.0;
    double all = 0.0;
    for (std::size_t row = 0; row < targets.size(); ++row) {
      auto const first = scores.begin() + static_cast<std::ptrdiff_t>(row) * columns;
      Floats sorted(first, first + columns);
      float const own = sorted[static_cast<std::size_t>(targets[row])];
      std::ranges::sort(sorted, std::greater<>());
      double terms = 0.0;
      double ties = 0.0;
      for (std::size_t rank = 1; rank <= sorted.size(); ++rank) {
        if (sorted[rank - 1] == own) {
          ties += 1.0;
          terms += static_cast<std::int64_t>(rank) <= k ? discount(static_cast<double>(rank)) : 0.0;
        }
      }
      double const weight = weights.empty() ? 1.0 : static_cast<double>(weights[row]);
      sum += weight * terms / ties;
      all += weight;
    }
    return sum / all;
  }
};

template <class R>
class RetrievalTest : public MetricsTest<R> {
 protected:
  Ranking random_ranking(std::int64_t rows, std::int64_t columns, bool weighted, bool tied) {
    Ranking ranking{columns,
                    this->random.reals(rows * columns),
                    this->random.integers(rows, 0, columns - 1),
                    weighted ? this->random.reals(rows, 0.1F, 3.0F) : Floats()};
    for (auto& score : ranking.scores) {
      score = tied ? std::round(score * 3.0F) : score;
    }
    return ranking;
  }
  Batch<R> put_ranking(Ranking const& ranking) {
    auto const rows = static_cast<std::int64_t>(ranking.targets.size());
    Batch<R> batch{.scores = this->put(ranking.scores, {rows, ranking.columns}),
                   .targets = this->put(ranking.targets)};
    if (!ranking.weights.empty()) {
      batch.weights = this->put(ranking.weights);
    }
    return batch;
  }
};
TYPED_TEST_SUITE(RetrievalTest, Runtimes, RuntimeNames);

TYPED_TEST(RetrievalTest, ranks_are_those_of_a_sort) {
  for (std::int64_t const columns : {1, 7, 255, 256, 257, 1000}) {
    for (std::int64_t const k : {1, 5, 10, 2000}) {
      for (bool const weighted : {false, true}) {
        for (bool const tied : {false, true}) {
          SCOPED_TRACE(fmt::format("{} columns, k {}, {}, {}", columns, k, weighted, tied));
          auto const ranking = this->random_ranking(33, columns, weighted, tied);
          RecallAtK const recall(this->device(), {.k = k});
          MeanReciprocalRank const mrr(this->device(), {.k = k});
          MetricSet(recall, mrr).update(this->put_ranking(ranking));
          EXPECT_NEAR(recall.value().value(), ranking.mean(k, [](double) { return 1.0; }), 1e-12);
          EXPECT_NEAR(
              mrr.value().value(), ranking.mean(k, [](double rank) { return 1.0 / rank; }), 1e-12);
        }
      }
    }
  }
}

TYPED_TEST(RetrievalTest, more_rows_than_blocks_of_a_launch) {
  auto const ranking = this->random_ranking(3000, 3, true, false);
  MeanReciprocalRank const mrr(this->device());
  mrr.update(this->put_ranking(ranking));
  EXPECT_NEAR(*mrr.value(), ranking.mean(10, [](double rank) { return 1.0 / rank; }), 1e-12);
}

TYPED_TEST(RetrievalTest, known_ranks) {
  RecallAtK const recall(this->device(), {.k = 2});
  MeanReciprocalRank const mrr(this->device());
  MetricSet const both(recall, mrr);
  EXPECT_FALSE(recall.value());
  Batch<TypeParam> batch{.scores = this->put(Floats{3,
                                                    1,
                                                    2,  // rank 1
                                                    3,
                                                    1,
                                                    2,  // rank 3
                                                    5,
                                                    -kInfinity,
                                                    kInfinity},  // rank 2
                                             {3, 3}),
                         .targets = this->put(std::vector<std::int32_t>{0, 1, 0})};
  both.update(batch);
  EXPECT_NEAR(*recall.value(), 2.0 / 3.0, 1e-15);
  EXPECT_NEAR(*mrr.value(), (1.0 + 1.0 / 3.0 + 0.5) / 3.0, 1e-15);
  both.reset();
  batch.count = this->scalar(1);
  both.update(batch);
  EXPECT_EQ(recall.value(), 1.0);
  EXPECT_EQ(mrr.value(), 1.0);
}

TYPED_TEST(RetrievalTest, a_target_out_of_the_ranking_is_a_miss) {
  RecallAtK const recall(this->device(), {.k = 3});
  MeanReciprocalRank const mrr(this->device());
  MetricSet(recall, mrr)
      .update({.scores = this->put(Floats{-kInfinity, 1, -kInfinity, 2, 1, -kInfinity}, {2, 3}),
               .targets = this->put(Integers{0, 0})});
  EXPECT_EQ(recall.value(), 0.5);
  EXPECT_EQ(mrr.value(), 0.5);
}

TYPED_TEST(RetrievalTest, rows_of_weight_0_do_not_count) {
  auto const nan = std::nanf("");
  RecallAtK const recall(this->device(), {.k = 1});
  recall.update({.scores = this->put(Floats{1, 2, nan, nan, 4, 3}, {3, 2}),
                 .weights = this->put(Floats{2, 0, 1}),
                 .targets = this->put(Integers{1, -1, 1})});
  EXPECT_NEAR(*recall.value(), 2.0 / 3.0, 1e-15);
  recall.reset();
  recall.update({.scores = this->put(Floats{1, 2}, {1, 2}),
                 .weights = this->put(Floats{0}),
                 .targets = this->put(Integers{1})});
  EXPECT_FALSE(recall.value());
}

TYPED_TEST(RetrievalTest, rows_without_a_rank_are_reported) {
  RecallAtK const recall(this->device());
  auto const update = [&](Floats const& scores, Integers const& targets, float weight = 1.0F) {
    recall.reset();
    recall.update({.scores = this->put(scores, {2, 2}),
                   .weights = this->put(Floats{1.0F, weight}),
                   .targets = this->put(targets)});
  };
  auto const value = [&] { (void)recall.value(); };
  update({1, 2, std::nanf(""), 3}, {0, 1});
  expect_refused(value, "recall_at_k: 1 rows", "NaN");
  update({1, 2, 2, 3}, {-1, 2});
  expect_refused(value, "recall_at_k: 2 rows", "targets outside the columns");
  update({1, 2, 2, 3}, {0, 1}, -1.0F);
  expect_refused(value, "recall_at_k: 1 examples", "weights");
  update({1, 2, 2, 3}, {0, 1});
  EXPECT_TRUE(recall.value());
}

TYPED_TEST(RetrievalTest, batches_without_targets_of_their_rows_are_refused) {
  RecallAtK const recall(this->device());
  auto const scores = this->put(Floats{1, 2, 3, 4}, {2, 2});
  expect_refused([&] { recall.update(scores, scores); }, "recall_at_k", "Batch::targets");
  expect_refused([&] { recall.update({.scores = scores, .targets = this->put(Integers{1})}); },
                 "recall_at_k",
                 "[2, 2] for 1 targets",
                 "[1, columns]");
  expect_refused(
      [&] {
        recall.update({.scores = this->put(Floats{1, 2}), .targets = this->put(Integers{1, 1})});
      },
      "[2] for 2 targets");
  Device<TypeParam> const other;
  auto const elsewhere = to_device<std::int64_t>(other, Integers{0, 0}, {2});
  expect_refused([&] { recall.update({.scores = scores, .targets = elsewhere}); },
                 "targets are on another device");
  expect_refused([&] { RecallAtK(this->device(), {.k = 0}); }, "recall_at_k", "k is 0");
  expect_refused([&] { MeanReciprocalRank(this->device(), {.k = (1 << 20) + 1}); }, "mrr: k is");
  expect_refused(
      [&] { recall.merge(RecallAtK(this->device(), {.k = 5})); }, "recall@10", "recall@5");
}

}  // namespace
}  // namespace msstream::metrics::testing
