// SPDX-License-Identifier: Apache-2.0
#include "metrics/metrics_fixture.hpp"

#include <msstream/metrics/auc.hpp>
#include <msstream/metrics/calibration.hpp>
#include <msstream/metrics/log_loss.hpp>
#include <msstream/metrics/metric_set.hpp>
#include <msstream/metrics/ndcg.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::expect_refused;

template <class R>
class MetricRefusalsTest : public MetricsTest<R> {};
TYPED_TEST_SUITE(MetricRefusalsTest, msstream::testing::Runtimes, msstream::testing::RuntimeNames);

TYPED_TEST(MetricRefusalsTest, a_full_metric_says_so_by_its_name) {
  Auc const auc(this->device(), {.name = "auc of clicks", .capacity = 5});
  auto const batch = this->batch({{1, 2, 3}, {0, 1, 1}});
  auto const expect_full = [](auto const& call) {
    EXPECT_THAT(msstream::testing::message_of<std::length_error>(call),
                ::testing::AllOf(::testing::HasSubstr("auc of clicks"),
                                 ::testing::HasSubstr("6 examples"),
                                 ::testing::HasSubstr("capacity of 5")));
  };
  auc.update(batch);
  // The update that exceeds the capacity says so at once, and adds nothing, also to other metrics.
  LogLoss const log_loss(this->device());
  expect_full([&] { MetricSet(log_loss, auc).update(batch); });
  EXPECT_FALSE(log_loss.value());
  EXPECT_EQ(auc.value(), 1.0);
  // The host does not know a count on the device; value() does.
  auto counted = batch;
  counted.count = this->scalar(2);
  auc.update(counted);
  EXPECT_EQ(auc.value(), 1.0);
  auc.reset();
  counted.count = this->scalar(3);
  auc.update(counted);
  auc.update(counted);
  expect_full([&] { (void)auc.value(); });
  auc.reset();
  auc.update(batch);
  EXPECT_EQ(auc.value(), 1.0);
}

TYPED_TEST(MetricRefusalsTest, a_set_tells_the_values_of_the_others) {
  auto const batch = this->batch({{1, 2}, {0, 1}});
  Auc const auc(this->device(), {.capacity = 1});
  LogLoss const log_loss(this->device());
  BucketedAuc const probabilities(this->device(), {.name = "of p", .input = Input::probabilities});
  Calibration const calibration(this->device());
  MetricSet const all(log_loss, auc, probabilities, calibration);
  auto counted = batch;
  counted.count = this->scalar(2);
  all.update(counted);
  EXPECT_THAT(msstream::testing::message_of<std::length_error>([&] { (void)all.values(); }),
              ::testing::AllOf(::testing::StartsWith("auc: 2 examples"),
                               ::testing::HasSubstr("; of p: 1 examples"),
                               ::testing::HasSubstr(fmt::format("; the other metrics: log_loss {}, "
                                                                "calibration {}",
                                                                *log_loss.value(),
                                                                *calibration.value()))));
  auto const nan = std::nanf("");
  all.reset();
  MetricSet(log_loss, probabilities).update(this->batch({{nan}, {0}}));
  expect_refused([&] { (void)all.values(); },
                 "log_loss: 1 examples",
                 "of p: 1 examples",
                 "the other metrics: auc empty, calibration empty");
}

TYPED_TEST(MetricRefusalsTest, bad_numbers_are_reported) {
  auto const nan = std::nanf("");
  Auc const auc(this->device(), {.capacity = 100, .weighted = true});
  BucketedAuc const bucketed(this->device(), {.input = Input::probabilities, .weighted = true});
  LogLoss const log_loss(this->device());
  MetricSet const all(auc, bucketed, log_loss);
  auto const expect_told = [&](auto const& metric, Examples const& examples, char const* what) {
    all.reset();
    all.update(this->batch({{0.5F, 0.25F}, {0, 1}, {1, 1}}));
    all.update(this->batch(examples));
    expect_refused([&] { (void)metric.value(); }, metric.name(), "1 examples", what);
    all.reset();
    EXPECT_FALSE(metric.value());
  };
  for (auto const& metric :
       {Metric<TypeParam>(auc), Metric<TypeParam>(bucketed), Metric<TypeParam>(log_loss)}) {
    expect_told(metric, {{0.5F, nan}, {0, 1}, {1, 1}}, "NaN");
    expect_told(metric, {{0.5F, 0.5F}, {nan, 1}, {1, 1}}, "labels");
    expect_told(metric, {{0.5F, 0.5F}, {0, 1.5F}, {1, 1}}, "labels outside [0, 1]");
    expect_told(metric, {{0.5F, 0.5F}, {0, 1}, {1, nan}}, "weights");
    expect_told(metric, {{0.5F, 0.5F}, {0, 1}, {-1, 1}}, "weights");
    expect_told(metric, {{0.5F, 0.5F}, {0, 1}, {kInfinity, 1}}, "weights");
  }
  expect_told(bucketed, {{1.5F, 0.5F}, {0, 1}, {1, 1}}, "probabilities");
  Ndcg const ndcg(this->device());
  ndcg.update({.scores = this->put(Floats{1, nan, 1}),
               .labels = this->put(Floats{1, 1, 1}),
               .offsets = this->put(Integers{0, 1, 3})});
  expect_refused([&] { (void)ndcg.value(); }, "ndcg", "1 examples", "NaN");
  ndcg.reset();
  ndcg.update({.scores = this->put(Floats{1, 1, 1}),
               .labels = this->put(Floats{1, -1, 31}),
               .offsets = this->put(Integers{0, 3})});
  expect_refused([&] { (void)ndcg.value(); }, "ndcg", "2 examples", "grades outside [0, 30]");
}

TYPED_TEST(MetricRefusalsTest, wrong_offsets_are_reported) {
  Ndcg const ndcg(this->device());
  auto const update = [&](Integers const& offsets, std::optional<std::int64_t> count = {}) {
    ndcg.reset();
    Batch<TypeParam> batch{.scores = this->put(Floats{1, 2, 3}),
                           .labels = this->put(Floats{1, 0, 1}),
                           .offsets = this->put(offsets)};
    if (count) {
      batch.count = this->scalar(*count);
    }
    ndcg.update(batch);
  };
  auto const expect_told = [&](Integers const& offsets, int bad) {
    update(offsets);
    expect_refused(
        [&] { (void)ndcg.value(); }, "ndcg", fmt::format("{} offsets or weights since", bad));
  };
  expect_told({0, 2}, 1);
  expect_told({0, 5}, 1);
  expect_told({0, 3, 1, 3}, 1);
  expect_told({1, 3}, 1);
  expect_told({-4, 3}, 1);
  expect_told({2, -1, 1}, 3);
  expect_told({0}, 1);
  Integers many(1000, 4);
  many.front() = 0;
  expect_told(many, 999);
  for (Integers const& offsets : {Integers{0, 3}, Integers{0, 0, 2, 2, 3, 3}}) {
    update(offsets);
    EXPECT_TRUE(ndcg.value());
  }
  // With a count, offsets may end at rows that do not exist.
  update({0, 1, 2}, 2);
  EXPECT_TRUE(ndcg.value());
  update({0, 1, 3}, 2);
  EXPECT_TRUE(ndcg.value());
  update({0}, 0);
  EXPECT_FALSE(ndcg.value());
  update({0, 1}, 2);
  expect_refused([&] { (void)ndcg.value(); }, "1 offsets");
  ndcg.reset();
  EXPECT_FALSE(ndcg.value());
}

TYPED_TEST(MetricRefusalsTest, refusals_name_the_metric_and_change_nothing) {
  auto const& device = this->device();
  auto const batch = this->batch({{1, 2}, {0, 1}});
  Auc const auc(device, {.capacity = 4});
  Auc const weighted(device, {.name = "weighed", .capacity = 4, .weighted = true});
  GroupedAuc const grouped(device, {.capacity = 4});
  Ndcg const ndcg(device);
  LogLoss const log_loss(device);
  expect_refused([&] { auc.update(this->put(Floats{1, 2}), this->put(Floats{1})); }, "auc", 2, 1);
  expect_refused([&] { auc.update(this->batch({{1}, {1}, {1}})); }, "auc", "with weights");
  expect_refused([&] { weighted.update(batch); }, "weighed", "without weights");
  expect_refused([&] { grouped.update(batch); }, "grouped_auc", "Batch::users");
  expect_refused([&] { ndcg.update(batch); }, "ndcg", "without offsets", "Batch::offsets");
  expect_refused([&] { log_loss.update({.scores = batch.scores}); }, "log_loss", "Batch::labels");
  auto bad = batch;
  bad.count = this->put(Integers{1, 2});
  expect_refused([&] { log_loss.update(bad); }, "log_loss", "scalar");
  bad = batch;
  bad.weights = this->put(Floats{1});
  expect_refused([&] { log_loss.update(bad); }, "log_loss", "weights");
  bad = batch;
  bad.users = this->put(Integers{1});
  expect_refused([&] { grouped.update(bad); }, "grouped_auc", "users");
  // A set updates none of its metrics if one of them rejects the batch.
  expect_refused([&] { MetricSet(log_loss, grouped).update(batch); }, "grouped_auc");
  EXPECT_FALSE(log_loss.value());
  expect_refused([&] { update({auc.with(batch), auc.with(batch)}); }, "auc", "twice");
  expect_refused([&] { MetricSet(auc, Auc(device, {.capacity = 1})); }, "auc", "two metrics");
  EXPECT_FALSE(auc.value());
  Device<TypeParam> const other;
  expect_refused([&] { LogLoss(other).update(batch); }, "log_loss", "another device");

  expect_refused([&] { Auc(device, {.capacity = 0}); }, "auc", "capacity", 0);
  expect_refused([&] { Auc(device, {.name = ""}); }, "name");
  expect_refused([&] { GroupedAuc(device, {.capacity = std::int64_t{1} << 31}); }, "capacity");
  expect_refused([&] { BucketedAuc(device, {.buckets = 1000}); }, "bucketed_auc", 1000);
  expect_refused([&] { LogLoss(device, {.epsilon = 0.0}); }, "log_loss", "epsilon");
  expect_refused([&] { NormalizedEntropy(device, {.epsilon = 0.5}); }, "epsilon");
  expect_refused([&] { Accuracy(device, {.threshold = 1.0}); }, "accuracy", "threshold");
  expect_refused([&] { Ndcg(device, {.k = 0}); }, "ndcg", "k is 0");
}

}  // namespace
}  // namespace msstream::metrics::testing
