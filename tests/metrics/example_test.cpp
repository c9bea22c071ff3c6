// SPDX-License-Identifier: Apache-2.0
// The program of docs/metrics.md.
#include <msstream/msstream.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace msstream::metrics::testing {
namespace {

TEST(MetricsExample, prints_the_metrics_of_an_epoch) {
  Device<Host> const device;
  auto const logits = to_device<float>(device, std::vector{2.0F, -1.0F, 0.5F}, {3});
  auto const labels = to_device<float>(device, std::vector{1.0F, 0.0F, 0.0F}, {3});

  metrics::Auc auc(device, {.capacity = 100'000});
  metrics::MetricSet metrics(auc, metrics::LogLoss(device), metrics::Calibration(device));
  for (int step = 0; step < 10; ++step) {
    metrics.update(logits, labels);  // one launch for all three; nothing is read
  }
  for (auto const& [name, value] : metrics.values()) {  // waits
    fmt::print("{} {}\n", name, value.value_or(NAN));
  }
  metrics.reset();
  EXPECT_FALSE(auc.value());
}

TEST(MetricsExample, merges_parts_whose_buckets_follow_one_sample) {
  Device<Host> const device;
  auto const logits = to_device<float>(device, std::vector{2.0F, -1.0F, 0.5F}, {3});
  auto const labels = to_device<float>(device, std::vector{1.0F, 0.0F, 0.0F}, {3});
  metrics::BucketedAuc first(device);
  first.update(logits, labels);
  metrics::BucketedAuc second(device, {.sample = first.sample()});
  metrics::BucketedAuc both(device, {.sample = first.sample()});
  second.update(logits, labels);
  both.merge(second);
  both.merge(second);
  EXPECT_EQ(both.value(), 1.0);
}

TEST(MetricsExample, ranks_the_items_of_lists) {
  Device<Host> const device;
  auto const scores = to_device<float>(device, std::vector{2.0F, -1.0F, 0.5F}, {3});
  auto const clicked = to_device<float>(device, std::vector{0.0F, 1.0F, 1.0F}, {3});
  auto const offsets = to_device<std::int64_t>(device, std::vector<std::int64_t>{0, 3}, {2});
  metrics::MeanAveragePrecision const precision(device, {.k = 10});
  precision.update({.scores = scores, .labels = clicked, .offsets = offsets});
  EXPECT_DOUBLE_EQ(precision.value().value(), (1.0 / 2.0 + 2.0 / 3.0) / 2.0);
}

TEST(MetricsExample, means_the_losses_of_steps) {
  Device<Host> const device;
  metrics::Mean mean_loss(device, {.name = "loss"});
  for (float const of_step : {0.5F, 0.25F}) {
    auto const loss = to_device<float>(device, std::vector{of_step}, Shape{});
    mean_loss.update({.scores = loss});
  }
  EXPECT_EQ(mean_loss.value(), 0.375);
}

}  // namespace
}  // namespace msstream::metrics::testing
