// SPDX-License-Identifier: Apache-2.0
// Compares metrics with scikit-learn's, as sklearn_values.py has recorded them.
#include "metrics/sklearn_values.hpp"

#include "ops/ops_fixture.hpp"

#include <msstream/metrics/auc.hpp>
#include <msstream/metrics/calibration.hpp>
#include <msstream/metrics/log_loss.hpp>
#include <msstream/metrics/metric_set.hpp>
#include <msstream/metrics/ndcg.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::Floats;
using msstream::testing::Integers;
using msstream::testing::OpsTest;
using msstream::testing::RuntimeNames;
using msstream::testing::Runtimes;

/// The linear congruential generator of sklearn_values.py.
class Numbers {
 public:
  explicit Numbers(std::int64_t seed) : state_(static_cast<std::uint64_t>(seed)) {}
  std::int64_t below(std::int64_t bound) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::int64_t>(state_ >> 33U) % bound;
  }

 private:
  std::uint64_t state_;
};

template <class R>
class SklearnValuesTest : public OpsTest<R> {};
TYPED_TEST_SUITE(SklearnValuesTest, Runtimes, RuntimeNames);

TYPED_TEST(SklearnValuesTest, metrics_of_labels_are_equal) {
  for (auto const& of_case : kSklearnCases) {
    SCOPED_TRACE(fmt::format(
        "{} examples, {} levels, weighted {}", of_case.count, of_case.levels, of_case.weighted));
    Numbers numbers(of_case.count * of_case.levels + (of_case.weighted ? 1 : 0));
    auto const levels = static_cast<float>(of_case.levels);
    Floats logits;
    Floats probabilities;
    Floats labels;
    Floats weights;
    for (std::int64_t i = 0; i < of_case.count; ++i) {
      auto const level = numbers.below(of_case.levels);
      // The first two labels are 0 and 1, so that there are both classes.
      bool const positive =
          i > 1 ? numbers.below(1000) < 50 + level * 800 / of_case.levels : i == 1;
      bool const weighted = of_case.weighted && i > 1;
      logits.push_back(static_cast<float>(level) * (8.0F / levels) - 5.0F);
      probabilities.push_back(level == of_case.levels - 1 ? 1.0F
                                                          : static_cast<float>(level) / levels);
      labels.push_back(positive ? 1.0F : 0.0F);
      weights.push_back(weighted ? static_cast<float>(numbers.below(17)) / 4.0F : 1.0F);
    }
    Auc const auc(this->device(), {.capacity = of_case.count, .weighted = true});
    BucketedAuc const bucketed(this->device(), {.weighted = true});
    LogLoss const of_logits(this->device());
    LogLoss const of_probabilities(this->device(),
                                   {.name = "probabilities", .input = Input::probabilities});
    Accuracy const accuracy(this->device(), {.input = Input::probabilities});
    Batch<TypeParam> const batch{
        .scores = this->put(logits), .labels = this->put(labels), .weights = this->put(weights)};
    auto other = batch;
    other.scores = this->put(probabilities);
    update({MetricSet(auc, bucketed, of_logits).with(batch),
            MetricSet(of_probabilities, accuracy).with(other)});
    EXPECT_NEAR(*auc.value(), of_case.auc, 1e-9);
    EXPECT_NEAR(*bucketed.value(), of_case.auc, 1e-4);
    EXPECT_NEAR(*of_logits.value(), of_case.log_loss_of_logits, 1e-9);
    // scikit-learn computes 1 - p in float32.
    EXPECT_NEAR(*of_probabilities.value(), of_case.log_loss_of_probabilities, 1e-6);
    EXPECT_NEAR(*accuracy.value(), of_case.accuracy, 1e-12);
  }
}

TYPED_TEST(SklearnValuesTest, ndcg_is_equal) {
  for (auto const& [places, ndcg] : kSklearnNdcg) {
    Numbers numbers(places);
    Floats grades;
    Floats scores;
    for (std::int64_t i = 0; i < kSklearnLists * kSklearnListLength; ++i) {
      grades.push_back(static_cast<float>(std::max<std::int64_t>(0, numbers.below(8) - 3)));
      scores.push_back(static_cast<float>(numbers.below(16)));
    }
    Integers offsets;
    for (std::int64_t list = 0; list <= kSklearnLists; ++list) {
      offsets.push_back(list * kSklearnListLength);
    }
    Ndcg const metric(this->device(), {.k = places, .exponential = false});
    metric.update(
        {.scores = this->put(scores), .labels = this->put(grades), .offsets = this->put(offsets)});
    EXPECT_NEAR(*metric.value(), ndcg, 1e-12);
  }
}

}  // namespace
}  // namespace msstream::metrics::testing
