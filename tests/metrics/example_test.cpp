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

TEST(MetricsExample, takes_the_parts_of_a_batch_by_name) {
  Device<Host> const device;
  auto const p = to_device<float>(device, std::vector{0.9F, 0.2F, 0.4F, 0.1F}, {4});
  auto const y = to_device<float>(device, std::vector{1.0F, 0.0F, 0.0F, 1.0F}, {4});
  auto const w = to_device<float>(device, std::vector{1.0F, 2.0F, 0.5F, 1.0F}, {4});
  auto const rows = to_device<std::int64_t>(device, std::vector<std::int64_t>{3}, Shape{});
  metrics::Auc const auc(device, {.weighted = true});
  auc.update({.scores = p, .labels = y, .weights = w, .count = rows});
  EXPECT_EQ(auc.value(), 1.0) << "the last example does not exist";
}

TEST(MetricsExample, updates_the_metrics_of_several_outputs_at_once) {
  Device<Host> const device;
  auto const p = to_device<float>(device, std::vector{2.0F, -1.0F}, {2});
  auto const q = to_device<float>(device, std::vector{-2.0F, 1.0F}, {2});
  auto const y = to_device<float>(device, std::vector{1.0F, 0.0F}, {2});
  auto const& z = y;
  metrics::Auc const clicks(device, {.name = "clicks"});
  metrics::Auc const orders(device, {.name = "orders"});
  metrics::update(
      {clicks.with({.scores = p, .labels = y}), orders.with({.scores = q, .labels = z})});
  EXPECT_EQ(clicks.value(), 1.0);
  EXPECT_EQ(orders.value(), 0.0);
}

}  // namespace
}  // namespace msstream::metrics::testing
