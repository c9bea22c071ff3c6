// SPDX-License-Identifier: Apache-2.0
#include "metrics/metrics_fixture.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::expect_refused;
using msstream::testing::Floats;
using msstream::testing::Random;
using msstream::testing::RuntimeNames;
using msstream::testing::Runtimes;

/// Scores in clusters, whose labels depend on the place within a cluster.
struct Clusters {
  int count;
  double width;
  bool are_probabilities;
};

Examples clustered_examples(Random& random, std::int64_t count, Clusters const& clusters) {
  std::vector<double> centres;
  std::vector<double> shares;
  for (int c = 0; c < clusters.count; ++c) {
    centres.push_back(clusters.are_probabilities ? random.real(0.02F, 0.98F)
                                                 : random.real(-8.0F, 8.0F));
    shares.push_back(random.real(-2.0F, 2.0F));
  }
  Examples examples;
  for (std::int64_t i = 0; i < count; ++i) {
    auto const own = static_cast<std::size_t>(random.integer(0, clusters.count - 1));
    float const place = random.real(-0.5F, 0.5F);
    examples.scores.push_back(static_cast<float>(centres[own] + place * clusters.width));
    double const logit = shares[own] + 8.0 * place;
    examples.labels.push_back(random.real(0.0F, 1.0F) < 1.0 / (1.0 + std::exp(-logit)) ? 1.0F
                                                                                       : 0.0F);
  }
  return examples;
}

template <class R>
class BucketedAucTest : public MetricsTest<R> {
 protected:
  /// Returns the metric of examples in batches.
  BucketedAuc<R> metric_of(Examples const& examples,
                           std::size_t rows,
                           typename BucketedAuc<R>::Options const& options) {
    BucketedAuc<R> const metric(this->device(), options);
    for (std::size_t begin = 0; begin < examples.count(); begin += rows) {
      metric.update(this->batch(examples, begin, std::min(begin + rows, examples.count())));
    }
    return metric;
  }
};
TYPED_TEST_SUITE(BucketedAucTest, Runtimes, RuntimeNames);

TYPED_TEST(BucketedAucTest, the_area_is_close_to_the_exact_one) {
  for (bool const weighted : {false, true}) {
    for (float const shift : {0.0F, -9.0F}) {  // a mean probability of a third, and of 1e-4
      auto examples = random_examples(this->random, 100'000, 1e6F, weighted);
      for (auto& score : examples.scores) {
        score += shift;
      }
      auto const exact = auc_by_ranks(examples);
      BucketedAuc const of_logits(this->device(), {.weighted = weighted});
      of_logits.update(this->batch(examples));
      expect_value(of_logits.value(), exact, 1e-4);
      BucketedAuc const of_probabilities(this->device(),
                                         {.input = Input::probabilities, .weighted = weighted});
      of_probabilities.update(this->batch(with_probabilities(examples)));
      expect_value(of_probabilities.value(), exact, 1e-4);
    }
  }
}

TYPED_TEST(BucketedAucTest, scores_of_any_spread_are_resolved) {
  for (float const spread : {10.0F, 1.0F, 1e-1F, 1e-2F, 1e-3F, 1e-4F}) {
    for (float const steps : {1e6F, 10.0F}) {  // the latter has ties
      auto examples = random_examples(this->random, 30'000, steps, false);
      for (auto& score : examples.scores) {
        score = score * spread - 3.5F;
      }
      // The first examples are far away from the others.
      std::fill_n(examples.scores.begin(), 8, -60.0F);
      std::fill_n(examples.scores.begin() + 8, 7, 40.0F);
      BucketedAuc const of_logits(this->device());
      of_logits.update(this->batch(examples));
      expect_value(of_logits.value(), auc_by_ranks(examples), 1e-4);
      auto const probabilities = with_probabilities(examples);
      BucketedAuc const of_probabilities(this->device(), {.input = Input::probabilities});
      of_probabilities.update(this->batch(probabilities));
      expect_value(of_probabilities.value(), auc_by_ranks(probabilities), 1e-4);
    }
  }
}

TYPED_TEST(BucketedAucTest, buckets_are_finest_at_the_first_examples_that_exist) {
  // Scores that only buckets around 3 tell apart.
  Examples const examples{{3, 3.000001F, 3.000002F, 3.000003F}, {0, 1, 0, 1}};
  auto const value_after = [&](Floats const& first, bool exists) {
    BucketedAuc const bucketed(this->device());
    auto batch = this->batch({first, Floats(first.size(), 0.0F)});
    batch.count = this->scalar(exists ? static_cast<std::int64_t>(first.size()) : 0);
    bucketed.update(batch);
    bucketed.update(this->batch(examples));
    bucketed.update(this->batch({{}, {}}));
    return bucketed.value();
  };
  EXPECT_EQ(value_after({}, true), 0.75);
  EXPECT_EQ(value_after({-100}, false), 0.75);
  EXPECT_EQ(value_after({-100}, true), 4.0 / 6.0);  // the four examples share a bucket
  BucketedAuc const bucketed(this->device());
  bucketed.update(this->batch({{-100, kInfinity}, {0, 1}}));
  bucketed.reset();
  bucketed.update(this->batch(examples));
  EXPECT_EQ(bucketed.value(), 0.75);
  // An infinite first score is no centre.
  bucketed.reset();
  bucketed.update(this->batch({{kInfinity, 1e-8F, 2e-8F}, {1, 0, 1}}));
  EXPECT_EQ(bucketed.value(), 1.0);
}

TYPED_TEST(BucketedAucTest, buckets_keep_the_order_of_extreme_scores) {
  BucketedAuc const of_logits(this->device(), {.buckets = 256});
  of_logits.update(this->batch({{-kInfinity, -40, 0, 40, kInfinity}, {0, 0, 0, 1, 1}}));
  EXPECT_EQ(of_logits.value(), 1.0);
  BucketedAuc const of_probabilities(this->device(), {.input = Input::probabilities});
  of_probabilities.update(this->batch(
      {{0.0F, 1e-9F, 0.4999F, 0.5F, 0.501F, 1.0F - 1e-6F, 1.0F}, {0, 0, 0, 0, 1, 1, 1}}));
  EXPECT_EQ(of_probabilities.value(), 1.0);
}

TYPED_TEST(BucketedAucTest, narrow_clusters_are_resolved) {
  for (int const count : {2, 3, 5, 10, 20}) {
    for (double const width : {1e-3, 1e-5}) {
      for (bool const are_probabilities : {false, true}) {
        SCOPED_TRACE(fmt::format("{} clusters of width {}", count, width));
        auto const examples =
            clustered_examples(this->random, 30'000, {count, width, are_probabilities});
        auto const metric = this->metric_of(
            examples, 1'024, {.input = are_probabilities ? Input::probabilities : Input::logits});
        auto const exact = auc_by_ranks(examples);
        expect_value(metric.value(), exact, 1e-4);
        EXPECT_LE(std::fabs(metric.value().value() - exact.value()), metric.error_bound().value());
      }
    }
  }
}

TYPED_TEST(BucketedAucTest, clusters_that_the_first_batch_lacks_are_within_the_bound) {
  auto examples = clustered_examples(this->random, 20'000, {2, 1e-5, false});
  std::fill_n(examples.scores.begin(), 500, 3.25F);
  auto const metric = this->metric_of(examples, 500, {});
  auto const error = std::fabs(metric.value().value() - auc_by_ranks(examples).value());
  EXPECT_GT(error, 1e-4);
  EXPECT_LE(error, metric.error_bound().value());
  EXPECT_LE(metric.error_bound().value(), 0.5);
}

TYPED_TEST(BucketedAucTest, bounds_are_shares_of_ties) {
  BucketedAuc<TypeParam> const metric(this->device(), {.weighted = true});
  EXPECT_FALSE(metric.error_bound());
  // Two of the six pairs of weights 2, 2 and 5 with 1 and 2 have one score.
  metric.update({.scores = this->put(Floats{1, 1, 7, 7, 9}),
                 .labels = this->put(Floats{1, 0, 1, 0, 1}),
                 .weights = this->put(Floats{2, 1, 2, 2, 5})});
  EXPECT_DOUBLE_EQ(metric.error_bound().value(), 0.5 * (2 * 1 + 2 * 2) / (9.0 * 3.0));
  // A bucket of one score alone has no error: 1 and the next float32 number are both in the sample.
  float const next = std::nextafter(1.0F, 2.0F);
  BucketedAuc<TypeParam> const exact(this->device(), {.sample = {next, 1.0F}});
  exact.update(this->put(Floats{1, 1, next}), this->put(Floats{1, 0, 1}));
  EXPECT_EQ(exact.error_bound(), 0.0);
  EXPECT_EQ(exact.value(), 0.75);
  // No probability is above 1, and none below 0.
  BucketedAuc<TypeParam> const certain(this->device(), {.input = Input::probabilities});
  certain.update(this->put(Floats{1, 0, 1, 0}), this->put(Floats{1, 0, 0, 1}));
  EXPECT_EQ(certain.error_bound(), 0.125);
  certain.update(this->put(Floats{0.5F}), this->put(Floats{1}));
  EXPECT_EQ(certain.value(), 3.0 / 6.0);
}

TYPED_TEST(BucketedAucTest, bounds_of_smooth_scores_are_small) {
  for (std::int64_t const buckets : {1 << 12, 1 << 16}) {
    auto const examples = random_examples(this->random, 50'000, 1e6F, false);
    auto const metric = this->metric_of(examples, 2'000, {.buckets = buckets});
    double const error = std::fabs(metric.value().value() - auc_by_ranks(examples).value());
    double const bound = metric.error_bound().value();
    EXPECT_LE(error, bound);
    EXPECT_LT(bound, buckets == 1 << 16 ? 1e-4 : 3e-3);
  }
}

TYPED_TEST(BucketedAucTest, one_sample_gives_equal_buckets_that_can_be_merged) {
  for (bool const weighted : {false, true}) {
    for (bool const are_probabilities : {false, true}) {
      auto examples = clustered_examples(this->random, 9'000, {7, 1e-5, are_probabilities});
      if (weighted) {
        examples.weights = this->random.reals(9'000, 0.1F, 3.0F);
      }
      typename BucketedAuc<TypeParam>::Options options{
          .input = are_probabilities ? Input::probabilities : Input::logits, .weighted = weighted};
      auto const of_first = this->metric_of(examples, 1'500, options);
      options.sample = of_first.sample();
      EXPECT_TRUE(std::ranges::is_sorted(options.sample));
      ASSERT_GT(options.sample.size(), 100U);
      std::ranges::reverse(options.sample);
      auto const whole = this->metric_of(examples, 1'500, options);
      EXPECT_NEAR(whole.value().value(), of_first.value().value(), 1e-4);
      auto const sum = this->metric_of({}, 1, options);
      for (std::size_t begin = 0; begin < 9'000; begin += 3'000) {
        BucketedAuc<TypeParam> const part(this->device(), options);
        part.update(this->batch(examples, begin, begin + 3'000));
        sum.merge(part);
      }
      EXPECT_EQ(sum.value(), whole.value());
      EXPECT_EQ(sum.error_bound(), whole.error_bound());
      EXPECT_EQ(sum.sample(), of_first.sample());
    }
  }
}

TYPED_TEST(BucketedAucTest, samples_are_of_the_first_examples_and_of_many_scores_quantiles) {
  BucketedAuc<TypeParam> const metric(this->device());
  EXPECT_TRUE(metric.sample().empty());
  metric.update(this->put(Floats{2, -1, 2}), this->put(Floats{0, 0, 1}));
  metric.update(this->put(Floats{5}), this->put(Floats{0}));
  EXPECT_EQ(metric.sample(), (Floats{-1, 2}));
  metric.reset();
  metric.update(this->put(Floats{5}), this->put(Floats{0}));
  EXPECT_EQ(metric.sample(), (Floats{5}));
  Floats many(5'000);
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i] = static_cast<float>(i);
  }
  BucketedAuc<TypeParam> const of_first(this->device());
  of_first.update(this->put(many), this->put(Floats(many.size(), 0.0F)));
  EXPECT_EQ(of_first.sample(), Floats(many.begin(), many.begin() + 1'023));
  auto const quantiles = BucketedAuc<TypeParam>(this->device(), {.sample = many}).sample();
  ASSERT_EQ(quantiles.size(), 1'023U);
  for (std::size_t i = 0; i < quantiles.size(); ++i) {
    EXPECT_NEAR(quantiles[i], (static_cast<double>(i) + 0.5) * 5'000 / 1'023, 1.0);
  }
  BucketedAuc<TypeParam> const few(this->device(), {.buckets = 256, .sample = many});
  EXPECT_EQ(few.sample().size(), 3U);
  EXPECT_TRUE(BucketedAuc<TypeParam>(this->device(), {.centre = 1.0}).sample().empty());
}

TYPED_TEST(BucketedAucTest, samples_that_are_no_scores_are_refused) {
  auto const& device = this->device();
  expect_refused(
      [&] {
        BucketedAuc<TypeParam>(device, {.sample = {1.0F, NAN}});
      },
      "bucketed_auc: a score of nan in Options::sample");
  expect_refused(
      [&] { BucketedAuc<TypeParam>(device, {.input = Input::probabilities, .sample = {1.5F}}); },
      "a score of 1.5 in Options::sample; expected probabilities in [0, 1]");
}

TYPED_TEST(BucketedAucTest, a_given_centre_has_the_finest_buckets) {
  auto const value_of = [&](double centre) {
    BucketedAuc<TypeParam> const auc(this->device(), {.buckets = 1 << 8, .centre = centre});
    auc.update(this->put(Floats{5.0F, 0.0F, 0.0F, 0.0F, 5.0001F}),
               this->put(Floats{0.0F, 0.0F, 0.0F, 0.0F, 1.0F}));
    return auc.value();
  };
  EXPECT_EQ(value_of(0.0), 3.5 / 4.0);  // two scores share a bucket
  EXPECT_EQ(value_of(5.00005), 1.0);
}

}  // namespace
}  // namespace msstream::metrics::testing
