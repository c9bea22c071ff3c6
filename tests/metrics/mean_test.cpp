// SPDX-License-Identifier: Apache-2.0
// Tests of means of any numbers, and of errors.
#include "metrics/metrics_fixture.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::expect_refused;
using msstream::testing::RuntimeNames;
using msstream::testing::Runtimes;

template <class R>
class MeanTest : public MetricsTest<R> {
 protected:
  /// Returns scores and labels of both signs, whose size is about `scale`.
  Examples random_numbers(std::int64_t count, float scale, bool weighted) {
    Examples examples{this->random.reals(count, -scale, scale),
                      this->random.reals(count, -scale, scale)};
    for (std::int64_t i = 0; weighted && i < count; ++i) {
      bool const is_left_out = i > 0 && this->random.integer(0, 3) == 0;
      examples.weights.push_back(is_left_out ? 0.0F : this->random.real(0.1F, 3.0F));
    }
    return examples;
  }

  static double mean_weight(Examples const& examples) {
    if (examples.weights.empty()) {
      return 1;
    }
    return std::accumulate(examples.weights.begin(), examples.weights.end(), 0.0) /
           static_cast<double>(examples.weights.size());
  }
};
TYPED_TEST_SUITE(MeanTest, Runtimes, RuntimeNames);

TYPED_TEST(MeanTest, means_of_any_numbers_are_those_of_their_definitions) {
  for (std::int64_t const count : {1, 31, 257, 5000}) {
    for (float const scale : {1e-3F, 1.0F, 86'400.0F, 1e9F}) {
      for (bool const weighted : {false, true}) {
        SCOPED_TRACE(fmt::format("{} examples of {}, weighted {}", count, scale, weighted));
        auto const examples = this->random_numbers(count, scale, weighted);
        Mean const mean(this->device());
        MeanSquaredError const mse(this->device());
        MeanSquaredError const rmse(this->device(), {.name = "rmse", .squared = false});
        MeanAbsoluteError const mae(this->device());
        MetricSet(mean, mse, rmse, mae).update(this->batch(examples));
        auto const error = [&](std::size_t i) {
          return static_cast<double>(examples.scores[i]) - examples.labels[i];
        };
        double const squared =
            weighted_mean(examples, [&](std::size_t i) { return error(i) * error(i); });
        double const absolute =
            weighted_mean(examples, [&](std::size_t i) { return std::abs(error(i)); });
        // Each term is cut to a multiple of 2^-64, which is divided by the weights with the sum.
        double const cut = 0x1p-64 / this->mean_weight(examples);
        EXPECT_NEAR(*mean.value(),
                    weighted_mean(examples, [&](std::size_t i) { return examples.scores[i]; }),
                    1e-12 * scale + cut);
        EXPECT_NEAR(*mse.value(), squared, 1e-11 * squared + cut);
        double const root = std::sqrt(squared);
        EXPECT_NEAR(*rmse.value(), root, 1e-11 * root + cut / root);
        EXPECT_NEAR(*mae.value(), absolute, 1e-12 * absolute + cut);
      }
    }
  }
}

TYPED_TEST(MeanTest, a_mean_of_losses_weighs_each_step) {
  Mean const mean(this->device(), {.name = "loss"});
  EXPECT_FALSE(mean.value());
  auto const loss_of = [&](float loss, float rows) {
    mean.update({.scores = this->put(Floats{loss}, Shape{}), .weights = this->put(Floats{rows})});
  };
  loss_of(-1.5F, 100.0F);
  loss_of(2.5F, 50.0F);
  loss_of(std::nanf(""), 0.0F);  // a step without rows
  EXPECT_NEAR(*mean.value(), (-150.0 + 125.0) / 150.0, 1e-15);
  mean.reset();
  EXPECT_FALSE(mean.value());
  mean.update({.scores = this->put(Floats{1, 2, 6})});
  EXPECT_EQ(mean.value(), 3.0);
}

TYPED_TEST(MeanTest, opposite_numbers_add_up_to_zero) {
  Mean const mean(this->device());
  for (float const number : {0.7F, -1e15F, 1e15F, -0.7F, 3e-9F, -3e-9F}) {
    mean.update({.scores = this->put(Floats{number})});
  }
  EXPECT_EQ(mean.value(), 0.0);
}

TYPED_TEST(MeanTest, numbers_that_no_mean_takes_are_reported) {
  Mean const mean(this->device());
  MeanSquaredError const mse(this->device());
  MeanAbsoluteError const mae(this->device());
  MetricSet const all(mean, mse, mae);
  auto const expect_told = [&](auto const& metric, Examples const& examples, char const* what) {
    all.reset();
    all.update(this->batch(examples));
    expect_refused([&] { (void)metric.value(); }, metric.name(), "1 examples", what);
    all.reset();
    EXPECT_FALSE(metric.value());
  };
  auto const nan = std::nanf("");
  for (float const bad : {nan, kInfinity, -kInfinity}) {
    expect_told(mean, {{1, bad}, {0, 1}}, "scores that are not finite");
    expect_told(mse, {{1, bad}, {0, 1}}, "scores that are not finite");
    expect_told(mae, {{1, 2}, {0, bad}}, "labels that are not finite");
  }
  expect_told(mean, {{1, 0x1p64F}, {0, 1}}, "terms of 2^64");
  expect_told(mean, {{1, 0x1p62F}, {0, 1}, {1, 4}}, "terms of 2^64");
  expect_told(mse, {{1, 0x1p32F}, {0, 0}}, "terms of 2^64");
  expect_told(mae, {{1, -std::numeric_limits<float>::max()}, {0, 0}}, "terms of 2^64");
  expect_told(mean, {{1, 1}, {0, 1}, {1, -1}}, "weights outside");
  // A mean reads no labels.
  mean.update(this->batch({{1, 2}, {nan, nan}}));
  EXPECT_EQ(mean.value(), 1.5);
  expect_refused([&] { mse.update({.scores = this->put(Floats{1})}); }, "mse", "Batch::labels");
}

}  // namespace
}  // namespace msstream::metrics::testing
