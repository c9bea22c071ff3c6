// SPDX-License-Identifier: Apache-2.0
#include "metrics/metrics_fixture.hpp"

#include <msstream/metrics/auc.hpp>
#include <msstream/metrics/calibration.hpp>
#include <msstream/metrics/log_loss.hpp>
#include <msstream/metrics/metric_set.hpp>
#include <msstream/metrics/ndcg.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::RuntimeNames;
using msstream::testing::Runtimes;

constexpr std::int64_t kSizes[] = {1, 2, 31, 32, 33, 127, 255, 256, 257, 4097, 20'000};

TYPED_TEST_SUITE(MetricsTest, Runtimes, RuntimeNames);

TYPED_TEST(MetricsTest, auc_equals_its_definition_with_ties_and_weights) {
  for (auto const count : kSizes) {
    for (float const steps : {1.0F, 10.0F, 1e6F}) {
      for (bool const weighted : {false, true}) {
        SCOPED_TRACE(fmt::format("{} examples, {} steps, weighted {}", count, steps, weighted));
        auto const examples = random_examples(this->random, count, steps, weighted);
        Auc const auc(this->device(), {.capacity = count + 3, .weighted = weighted});
        auc.update(this->batch(examples));
        expect_value(auc.value(),
                     count < 200 ? auc_by_pairs(examples) : auc_by_ranks(examples),
                     weighted ? 1e-9 : 1e-13);
      }
    }
  }
}

TYPED_TEST(MetricsTest, auc_of_known_orders) {
  auto const auc_of = [&](Floats const& scores, Floats const& labels) {
    Auc const auc(this->device(), {.capacity = 10});
    auc.update(this->put(scores), this->put(labels));
    return auc.value();
  };
  EXPECT_EQ(auc_of({1, 2, 3, 4}, {0, 0, 1, 1}), 1.0);
  EXPECT_EQ(auc_of({1, 2, 3, 4}, {1, 1, 0, 0}), 0.0);
  EXPECT_EQ(auc_of({7, 7, 7}, {1, 0, 0}), 0.5);
  EXPECT_EQ(auc_of({0.0F, -0.0F}, {1, 0}), 0.5);
  EXPECT_EQ(auc_of({-kInfinity, kInfinity, -1e30F, 1e30F}, {0, 1, 0, 1}), 1.0);
  EXPECT_EQ(auc_of({-2, -1, 1e-40F}, {0, 1, 1}), 1.0);
}

TYPED_TEST(MetricsTest, one_class_has_no_area) {
  Floats const scores{1, 2, 3};
  for (float const label : {0.0F, 1.0F}) {
    Floats const labels(3, label);
    Batch<TypeParam> const batch{.scores = this->put(scores), .labels = this->put(labels)};
    Auc const auc(this->device(), {.capacity = 10});
    BucketedAuc const bucketed(this->device());
    GroupedAuc const grouped(this->device(), {.capacity = 10});
    NormalizedEntropy const entropy(this->device());
    MetricSet const all(auc, bucketed, entropy);
    for (auto const& [name, value] : all.values()) {
      EXPECT_FALSE(value) << name << " without examples";
    }
    EXPECT_FALSE(grouped.value());
    all.update(batch);
    for (auto const& [name, value] : all.values()) {
      EXPECT_FALSE(value) << name;
    }
    auto with_users = batch;
    with_users.users = this->put(Integers{1, 2, 1});
    grouped.update(with_users);
    EXPECT_FALSE(grouped.value());
  }
}

TYPED_TEST(MetricsTest, a_class_whose_weights_are_zero_has_no_area) {
  Auc const auc(this->device(), {.capacity = 10, .weighted = true});
  BucketedAuc const bucketed(this->device(), {.weighted = true});
  MetricSet const both(auc, bucketed);
  both.update(this->batch({{1, 2, 3}, {0, 1, 1}, {1, 0, 0}}));
  EXPECT_FALSE(auc.value());
  EXPECT_FALSE(bucketed.value());
  both.reset();
  both.update(this->batch({{1, 2}, {0, 1}, {0, 0}}));
  EXPECT_FALSE(auc.value());
}

TYPED_TEST(MetricsTest, auc_counts_weights_of_very_different_sizes) {
  for (float const size : {1e-30F, 1e-9F, 1.0F, 2e7F}) {
    Examples examples = random_examples(this->random, 500, 20.0F, true);
    for (auto& weight : examples.weights) {
      weight *= size;
    }
    examples.weights[3] = size * 1e-4F;
    Auc const auc(this->device(), {.capacity = 500, .weighted = true});
    auc.update(this->batch(examples));
    expect_value(auc.value(), auc_by_pairs(examples), 1e-9);
  }
}

TYPED_TEST(MetricsTest, means_of_logits_are_those_of_their_definitions) {
  for (auto const count : kSizes) {
    for (bool const weighted : {false, true}) {
      SCOPED_TRACE(fmt::format("{} examples, weighted {}", count, weighted));
      auto examples = random_examples(this->random, count, 1e6F, weighted);
      if (weighted) {
        examples.weights[0] = 1.0F;
      }
      LogLoss const log_loss(this->device());
      Calibration const calibration(this->device());
      Accuracy const accuracy(this->device(), {.threshold = 0.3});
      NormalizedEntropy const entropy(this->device());
      MetricSet const all(log_loss, calibration, accuracy, entropy);
      all.update(this->batch(examples));
      auto const mean_of = [&](auto const& term) { return weighted_mean(examples, term); };
      double const expected_loss = mean_of([&](std::size_t i) {
        return loss(probability(examples.scores[i]), examples.labels[i], 0x1p-52);
      });
      EXPECT_NEAR(*log_loss.value(), expected_loss, 1e-12);
      EXPECT_NEAR(*accuracy.value(),
                  mean_of([&](std::size_t i) {
                    return (probability(examples.scores[i]) > 0.3) == (examples.labels[i] > 0.5F);
                  }),
                  1e-12);
      double const clicks = mean_label(examples);
      if (clicks > 0.0) {
        double const predicted =
            mean_of([&](std::size_t i) { return probability(examples.scores[i]); });
        EXPECT_NEAR(*calibration.value(), predicted / clicks, 1e-12 * predicted / clicks);
      } else {
        EXPECT_FALSE(calibration.value());
      }
      if (clicks > 0.0 && clicks < 1.0) {
        double const base = -clicks * std::log(clicks) - (1 - clicks) * std::log(1 - clicks);
        EXPECT_NEAR(*entropy.value(), expected_loss / base, 1e-11 * expected_loss / base);
      } else {
        EXPECT_FALSE(entropy.value());
      }
    }
  }
}

TYPED_TEST(MetricsTest, means_of_probabilities_are_those_of_their_definitions) {
  auto examples = with_probabilities(random_examples(this->random, 3000, 1e6F, true));
  examples.scores[0] = 0.0F;
  examples.scores[1] = 1.0F;
  examples.labels[2] = 0.25F;
  for (std::optional<double> const epsilon :
       {std::optional<double>(), std::optional(0x1p-60), std::optional(0.01)}) {
    LogLoss const log_loss(this->device(), {.input = Input::probabilities, .epsilon = epsilon});
    log_loss.update(this->batch(examples));
    EXPECT_NEAR(*log_loss.value(),
                weighted_mean(examples,
                              [&](std::size_t i) {
                                return loss(examples.scores[i],
                                            examples.labels[i],
                                            epsilon.value_or(0x1p-23));
                              }),
                1e-12);
  }
  Calibration const calibration(this->device(), {.input = Input::probabilities});
  Accuracy const accuracy(this->device(), {.input = Input::probabilities});
  MetricSet(calibration, accuracy).update(this->batch(examples));
  EXPECT_NEAR(*calibration.value(),
              weighted_mean(examples, [&](std::size_t i) { return examples.scores[i]; }) /
                  mean_label(examples),
              1e-12);
  EXPECT_NEAR(*accuracy.value(),
              weighted_mean(examples,
                            [&](std::size_t i) {
                              return (examples.scores[i] > 0.5F) == (examples.labels[i] > 0.5F);
                            }),
              1e-12);
}

TYPED_TEST(MetricsTest, log_loss_of_extreme_logits_is_limited) {
  LogLoss const log_loss(this->device());
  log_loss.update(this->batch({{1e30F, -kInfinity, kInfinity}, {1, 0, 1}}));
  EXPECT_NEAR(*log_loss.value(), 0.0, 1e-15);
  log_loss.reset();
  log_loss.update(this->batch({{kInfinity}, {0}}));
  EXPECT_NEAR(*log_loss.value(), 52 * std::log(2.0), 1e-12);
}

TYPED_TEST(MetricsTest, grouped_auc_weighs_users_by_their_examples) {
  for (auto const count : kSizes) {
    auto const examples = random_examples(this->random, count, 5.0F, false);
    auto users = this->random.integers(count, -3, std::max<std::int64_t>(1, count / 4));
    for (auto& user : users) {
      user *= 1'000'000'007;  // beyond 32 bits
    }
    GroupedAuc const grouped(this->device(), {.capacity = count});
    auto batch = this->batch(examples);
    batch.users = this->put(users);
    grouped.update(batch);
    expect_value(grouped.value(), grouped_auc(examples, users), 1e-12);
  }
}

TYPED_TEST(MetricsTest, grouped_auc_takes_ids_of_32_bits) {
  Examples const examples{{1, 2, 3, 4, 5}, {0, 1, 1, 0, 1}};
  GroupedAuc const grouped(this->device(), {.capacity = 5});
  auto batch = this->batch(examples);
  batch.users = this->put(std::vector<std::int32_t>{7, 7, 8, 8, 9});
  grouped.update(batch);
  EXPECT_EQ(grouped.value(), 0.5);  // 1 for user 7, 0 for user 8; user 9 has one class
}

TYPED_TEST(MetricsTest, ndcg_is_that_of_its_definition) {
  for (bool const exponential : {false, true}) {
    for (std::int64_t const places : {1, 3, 10, 1000}) {
      Integers offsets{0};
      for (std::int64_t const length : {0, 1, 2, 31, 33, 257, 600, 0, 5, 5}) {
        offsets.push_back(offsets.back() + length);
      }
      auto const count = offsets.back();
      Floats scores;
      Floats grades;
      for (std::int64_t i = 0; i < count; ++i) {
        scores.push_back(static_cast<float>(this->random.integer(0, 40)) / 7.0F);
        grades.push_back(i >= count - 5 ? 0.0F : static_cast<float>(this->random.integer(0, 4)));
      }
      grades[1] = 2.5F;
      Ndcg const ndcg(this->device(), {.k = places, .exponential = exponential});
      ndcg.update({.scores = this->put(scores),
                   .labels = this->put(grades),
                   .offsets = this->put(offsets)});
      expect_value(ndcg.value(), mean_ndcg(scores, grades, offsets, places, exponential), 1e-12);
    }
  }
}

TYPED_TEST(MetricsTest, lists_without_a_grade_are_left_out) {
  Ndcg const ndcg(this->device());
  auto const update = [&](Floats const& scores, Floats const& grades, Integers const& offsets) {
    ndcg.update(
        {.scores = this->put(scores), .labels = this->put(grades), .offsets = this->put(offsets)});
  };
  update({1, 2}, {0, 0}, {0, 2});
  update({}, {}, {0});
  EXPECT_FALSE(ndcg.value());
  update({1, 2, 3}, {0, 0, 1}, {0, 2, 3});
  EXPECT_EQ(ndcg.value(), 1.0);
}

TYPED_TEST(MetricsTest, the_division_into_batches_changes_no_bit) {
  auto const examples = random_examples(this->random, 5000, 30.0F, true);
  auto const values_of = [&](std::vector<std::size_t> const& ends) {
    MetricSet const all(Auc(this->device(), {.capacity = 5000, .weighted = true}),
                        BucketedAuc(this->device(), {.weighted = true}),
                        LogLoss(this->device()),
                        NormalizedEntropy(this->device()),
                        Calibration(this->device()),
                        Accuracy(this->device()));
    std::size_t begin = 0;
    for (auto const end : ends) {
      all.update(this->batch(examples, begin, end));
      begin = end;
    }
    return all.values();
  };
  auto const whole = values_of({5000});
  EXPECT_EQ(values_of({1, 1, 34, 1058, 1058, 5000}), whole);
  std::vector<std::size_t> fifties;
  for (std::size_t end = 50; end <= 5000; end += 50) {
    fifties.push_back(end);
  }
  EXPECT_EQ(values_of(fifties), whole);
}

TYPED_TEST(MetricsTest, only_the_first_rows_exist) {
  auto const examples = random_examples(this->random, 700, 30.0F, false);
  Auc const auc(this->device(), {.capacity = 1000});
  BucketedAuc const bucketed(this->device());
  LogLoss const log_loss(this->device());
  MetricSet const all(auc, bucketed, log_loss);
  all.update(this->batch(examples, 0, 333));
  auto const expected = all.values();
  for (std::int64_t const count : {333, 0}) {
    if (count > 0) {
      all.reset();
    }
    // Rows behind the count are bad, and must not be counted.
    auto padded = examples;
    padded.scores.resize(333);
    padded.labels.resize(333);
    padded.scores.resize(1000, std::nanf(""));
    padded.labels.resize(1000, std::nanf(""));
    auto batch = this->batch(padded);
    batch.count = this->scalar(count);
    all.update(batch);
    EXPECT_EQ(all.values(), expected);
  }
  auto batch = this->batch(examples, 0, 333);
  all.reset();
  batch.count = this->scalar(5000);  // limited to the rows of the batch
  all.update(batch);
  EXPECT_EQ(all.values(), expected);
}

TYPED_TEST(MetricsTest, empty_batches_change_nothing) {
  Auc const auc(this->device(), {.capacity = 4});
  LogLoss const log_loss(this->device());
  MetricSet const both(auc, log_loss);
  both.update(this->batch({{}, {}}));
  EXPECT_FALSE(auc.value());
  EXPECT_FALSE(log_loss.value());
  both.update(this->batch({{1, 2}, {0, 1}}));
  both.update(this->batch({{}, {}}));
  EXPECT_EQ(auc.value(), 1.0);
}

TYPED_TEST(MetricsTest, a_set_of_more_metrics_than_a_launch_takes) {
  std::vector<LogLoss<TypeParam>> losses;
  std::vector<Update> updates;
  for (int i = 0; i < 40; ++i) {
    losses.emplace_back(this->device());
    auto const label = static_cast<float>(i % 2);
    updates.push_back(losses.back().with(this->batch({{static_cast<float>(i)}, {label}})));
  }
  update(updates);
  for (int i = 0; i < 40; ++i) {
    double const sign = i % 2 == 1 ? -1.0 : 1.0;
    EXPECT_NEAR(*losses[static_cast<std::size_t>(i)].value(),
                std::min(std::log1p(std::exp(sign * i)), 52 * std::log(2.0)),
                1e-12);
  }
}

TYPED_TEST(MetricsTest, a_million_examples) {
  constexpr std::int64_t kCount = 1'000'000;
  auto const examples = random_examples(this->random, kCount, 1e4F, false);
  Auc const auc(this->device(), {.capacity = kCount});
  BucketedAuc const bucketed(this->device());
  LogLoss const log_loss(this->device());
  MetricSet(auc, bucketed, log_loss).update(this->batch(examples));
  auto const exact = auc_by_ranks(examples);
  expect_value(auc.value(), exact, 1e-12);
  expect_value(bucketed.value(), exact, 1e-4);
  EXPECT_NEAR(*log_loss.value(),
              weighted_mean(examples,
                            [&](std::size_t i) {
                              return loss(
                                  probability(examples.scores[i]), examples.labels[i], 0x1p-52);
                            }),
              1e-12);
}

}  // namespace
}  // namespace msstream::metrics::testing
