// SPDX-License-Identifier: Apache-2.0
#include "training/metrics.hpp"

#include "datasets/counter_random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace msstream::training {
namespace {

using Floats = std::vector<float>;

/// Computes the area under the ROC curve by its definition, over all pairs of a positive and a
/// negative example.
double auc_by_pairs(Floats const& scores, Floats const& labels) {
  double won = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] > 0.5F && labels[j] < 0.5F) {
        ++pairs;
        won += scores[i] > scores[j] ? 1.0 : scores[i] == scores[j] ? 0.5 : 0.0;
      }
    }
  }
  return won / pairs;
}

TEST(Metrics, auc_equals_its_definition_with_ties) {
  for (std::uint64_t levels : {2, 5, 1'000'000}) {
    Floats scores;
    Floats labels;
    for (std::uint64_t i = 0; i < 300; ++i) {
      auto const level = datasets::random_bits(levels, 0, i) % levels;
      scores.push_back(static_cast<float>(level) - 2.0F);
      labels.push_back(datasets::random_bits(levels, 1, i) % levels <= level ? 1.0F : 0.0F);
    }
    EXPECT_DOUBLE_EQ(*roc_auc(scores, labels), auc_by_pairs(scores, labels)) << levels;
  }
}

TEST(Metrics, auc_of_known_orders) {
  EXPECT_EQ(*roc_auc(Floats{1, 2, 3, 4}, Floats{0, 0, 1, 1}), 1.0);
  EXPECT_EQ(*roc_auc(Floats{1, 2, 3, 4}, Floats{1, 1, 0, 0}), 0.0);
  EXPECT_EQ(*roc_auc(Floats{7, 7, 7}, Floats{1, 0, 0}), 0.5);
}

TEST(Metrics, auc_needs_both_classes_and_an_order) {
  EXPECT_FALSE(roc_auc(Floats{1, 2}, Floats{1, 1}));
  EXPECT_FALSE(roc_auc(Floats{}, Floats{}));
  EXPECT_THROW((void)roc_auc(Floats{1, std::nanf("")}, Floats{0, 1}), std::invalid_argument);
  EXPECT_THROW((void)roc_auc(Floats{1}, Floats{0, 1}), std::invalid_argument);
}

TEST(Metrics, log_loss_is_exact_and_does_not_overflow) {
  EXPECT_DOUBLE_EQ(log_loss(Floats{0, 0}, Floats{0, 1}), std::log(2.0));
  EXPECT_NEAR(log_loss(Floats{2}, Floats{1}), -std::log(1 / (1 + std::exp(-2.0))), 1e-12);
  EXPECT_DOUBLE_EQ(log_loss(Floats{1e30F}, Floats{0}), static_cast<double>(1e30F));
  EXPECT_EQ(log_loss(Floats{-1e30F}, Floats{0}), 0.0);
  EXPECT_THROW((void)log_loss(Floats{}, Floats{}), std::invalid_argument);
}

TEST(Metrics, accuracy_counts_both_kinds_of_right) {
  EXPECT_DOUBLE_EQ(accuracy(Floats{-1, 1, 2, -2}, Floats{0, 1, 0, 1}), 0.5);
  EXPECT_DOUBLE_EQ(accuracy(Floats{0.4F, 0.6F}, Floats{0, 1}, 0.5F), 1.0);
}

TEST(Metrics, ndcg_of_known_orders) {
  // The gains of the grades 2, 1 and 0 are 3, 1 and 0, and the ranks 1, 2 and 3 are discounted by
  // 1, log2(3) and 2.
  double const best = 3 + 1 / std::log2(3.0);
  EXPECT_DOUBLE_EQ(*ndcg(Floats{0.9F, 0.5F, 0.1F}, Floats{2, 1, 0}, 10), 1.0);
  EXPECT_DOUBLE_EQ(*ndcg(Floats{0.1F, 0.5F, 0.9F}, Floats{2, 1, 0}, 10),
                   (1 / std::log2(3.0) + 3.0 / 2) / best);
  EXPECT_DOUBLE_EQ(*ndcg(Floats{0.1F, 0.5F, 0.9F}, Floats{2, 1, 0}, 2), 1 / std::log2(3.0) / best);
  EXPECT_DOUBLE_EQ(*ndcg(Floats{0.5F, 0.9F}, Floats{2, 1}, 1), 1.0 / 3);
  EXPECT_EQ(*ndcg(Floats{1, 2}, Floats{3, 0}, 1), 0.0);
}

TEST(Metrics, ndcg_of_ties_is_the_mean_over_their_orders) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<std::size_t> order(5);
    std::iota(order.begin(), order.end(), 0);
    Floats grades;
    Floats scores;
    for (std::uint64_t i = 0; i < order.size(); ++i) {
      grades.push_back(static_cast<float>(datasets::random_bits(seed, 0, i) % 4));
      scores.push_back(static_cast<float>(datasets::random_bits(seed, 1, i) % 2));
    }
    grades.front() = 4;
    StreamingMean untied;
    do {  // all ways to break the ties, equally often
      Floats broken;
      for (std::size_t i = 0; i < order.size(); ++i) {
        broken.push_back(scores[i] + 0.01F * static_cast<float>(order[i]));
      }
      untied.add(*ndcg(broken, grades, 3));
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_NEAR(*ndcg(scores, grades, 3), *untied.mean(), 1e-12) << seed;
  }
}

TEST(Metrics, ndcg_needs_an_item_that_is_wanted) {
  EXPECT_FALSE(ndcg(Floats{1, 2}, Floats{0, 0}, 10));
  EXPECT_FALSE(ndcg(Floats{}, Floats{}, 10));
  EXPECT_THROW((void)ndcg(Floats{1}, Floats{1, 2}, 10), std::invalid_argument);
  EXPECT_THROW((void)ndcg(Floats{1}, Floats{1}, 0), std::invalid_argument);
  EXPECT_THROW((void)ndcg(Floats{std::nanf("")}, Floats{1}, 10), std::invalid_argument);
  EXPECT_THROW((void)ndcg(Floats{1}, Floats{-1}, 10), std::invalid_argument);
  EXPECT_THROW((void)ndcg(Floats{1}, Floats{std::nanf("")}, 10), std::invalid_argument);
}

TEST(Metrics, percentiles_interpolate) {
  std::vector<double> const values{40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 10);
  EXPECT_DOUBLE_EQ(percentile(values, 50), 25);
  EXPECT_DOUBLE_EQ(percentile(values, 99), 39.7);
  EXPECT_DOUBLE_EQ(percentile(values, 100), 40);
  EXPECT_DOUBLE_EQ(percentile(std::vector<double>{3}, 75), 3);
  EXPECT_THROW((void)percentile({}, 50), std::invalid_argument);
  EXPECT_THROW((void)percentile(values, 101), std::invalid_argument);
}

TEST(Metrics, streaming_mean_weighs) {
  StreamingMean mean;
  EXPECT_FALSE(mean.mean());
  mean.add(5, 0);
  EXPECT_FALSE(mean.mean());
  mean.add(1, 3);
  mean.add(5, 1);
  EXPECT_DOUBLE_EQ(*mean.mean(), 2.0);
}

}  // namespace
}  // namespace msstream::training
