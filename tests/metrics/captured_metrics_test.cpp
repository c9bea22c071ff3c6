// SPDX-License-Identifier: Apache-2.0
// Tests that metrics have the same bits however the work is divided among stream groups, captured
// or not, and on the host.
#include "metrics/metric_references.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::OpsTest;
using msstream::testing::RuntimeNames;
using msstream::testing::Runtimes;

using Values = std::vector<std::pair<std::string, std::optional<double>>>;

constexpr std::int64_t kBatch = 500;
constexpr int kSteps = 12;
constexpr std::int64_t kAll = kBatch * kSteps;
constexpr std::int64_t kColumns = 50;

/// Metrics of each kind for two tasks, which one launch updates.
template <Runtime R>
struct TwoTasks {
  explicit TwoTasks(Device<R> const& device)
      : clicks(Auc(device, {.capacity = kAll}),
               BucketedAuc(device),
               LogLoss(device),
               Calibration(device),
               Mean(device),
               MeanAbsoluteError(device),
               GroupedAuc(device, {.capacity = kAll})),
        orders(Auc(device, {.capacity = kAll, .weighted = true}),
               BucketedAuc(device, {.weighted = true}),
               NormalizedEntropy(device),
               MeanSquaredError(device),
               Accuracy(device)),
        lists(Ndcg(device, {.k = 5}), MeanAveragePrecision(device, {.k = 5})),
        targets(RecallAtK(device, {.k = 3}), MeanReciprocalRank(device)) {}

  void update(Batch<R> const& of_clicks,
              Batch<R> const& of_orders,
              Batch<R> const& of_lists,
              Batch<R> const& of_targets) const {
    metrics::update({clicks.with(of_clicks),
                     orders.with(of_orders),
                     lists.with(of_lists),
                     targets.with(of_targets)});
  }
  [[nodiscard]] Values values() const {
    auto all = clicks.values();
    for (auto const& value : orders.values()) {
      all.push_back(value);
    }
    for (auto const& value : lists.values()) {
      all.push_back(value);
    }
    for (auto const& value : targets.values()) {
      all.push_back(value);
    }
    return all;
  }

  MetricSet<R> clicks;
  MetricSet<R> orders;
  MetricSet<R> lists;
  MetricSet<R> targets;
};

/// The inputs of all steps, on the host.
struct Inputs {
  explicit Inputs(msstream::testing::Random& random)
      : features(random.reals(kAll, -3.0F, 3.0F)),
        weights(random.reals(kAll, 0.0F, 2.0F)),
        users(random.integers(kAll, 0, 40)) {
    for (float const feature : features) {
      labels.push_back(feature + random.real(-3.0F, 3.0F) > 0.0F ? 1.0F : 0.0F);
    }
    for (std::int64_t begin = 0; begin <= kBatch; begin += kBatch / 20) {
      offsets.push_back(begin);
    }
  }
  template <class T>
  [[nodiscard]] static std::vector<T> of_step(std::vector<T> const& all, int step) {
    auto const begin = all.begin() + step * kBatch;
    return {begin, begin + kBatch};
  }

  Floats features;
  Floats weights;
  Integers users;
  Floats labels;
  Integers offsets;
};

/// Runs all steps: each computes scores on several groups, and updates the metrics on another.
/// Returns the values.
template <Runtime R>
Values values_of_steps(Device<R> const& device, Inputs const& inputs, int groups, bool captured) {
  StreamPool<R> pool(device, {.groups = groups});
  TwoTasks<R> const metrics(device);
  auto const features = zeros<float>(device, {kBatch});
  auto const labels = zeros<float>(device, {kBatch});
  auto const weights = zeros<float>(device, {kBatch});
  auto const users = zeros<std::int64_t>(device, {kBatch});
  auto const count = zeros<std::int64_t>(device, Shape{});
  auto const offsets = to_device<std::int64_t>(
      device, inputs.offsets, {static_cast<std::int64_t>(inputs.offsets.size())});
  auto const chosen = to_device<std::int64_t>(
      device, Integers(inputs.users.begin(), inputs.users.begin() + 10), {kBatch / kColumns});
  auto const step = [&] {
    auto const on = [&](int branch) { return StreamScope(pool[branch % groups]); };
    std::optional<Tensor<float, R>> logits;
    std::optional<Tensor<float, R>> others;
    {
      auto const scope = on(0);
      logits = ops::scale(features, 0.5F);
    }
    {
      auto const scope = on(1);
      others = ops::square(features);
    }
    auto const scope = on(2);
    metrics.update({.scores = *logits, .labels = labels, .count = count, .users = users},
                   {.scores = *others, .labels = labels, .weights = weights, .count = count},
                   {.scores = *others, .labels = labels, .count = count, .offsets = offsets},
                   {.scores = others->reshaped({kBatch / kColumns, kColumns}),
                    .weights = weights.rows(0, kBatch / kColumns),
                    .targets = chosen});
  };
  std::optional<CapturedStep<R>> graph;
  if (captured) {
    graph.emplace(device, step);
  }
  for (int i = 0; i < kSteps; ++i) {
    copy(features, to_device<float>(device, Inputs::of_step(inputs.features, i), {kBatch}));
    copy(labels, to_device<float>(device, Inputs::of_step(inputs.labels, i), {kBatch}));
    copy(weights, to_device<float>(device, Inputs::of_step(inputs.weights, i), {kBatch}));
    copy(users, to_device<std::int64_t>(device, Inputs::of_step(inputs.users, i), {kBatch}));
    // The last batch is not full.
    Integers const exist{i + 1 < kSteps ? kBatch : kBatch / 3};
    copy(count, to_device<std::int64_t>(device, exist, Shape{}));
    captured ? static_cast<void>(graph->replay()) : step();
  }
  return metrics.values();
}

template <class R>
class CapturedMetricsTest : public OpsTest<R> {};
TYPED_TEST_SUITE(CapturedMetricsTest, Runtimes, RuntimeNames);

TYPED_TEST(CapturedMetricsTest, values_have_the_same_bits_for_any_number_of_groups_and_captured) {
  Inputs const inputs(this->random);
  auto const expected = values_of_steps(this->device(), inputs, 1, false);
  for (auto const& [name, value] : expected) {
    EXPECT_TRUE(value) << name;
  }
  for (int groups = 1; groups <= 8; ++groups) {
    EXPECT_EQ(values_of_steps(this->device(), inputs, groups, false), expected) << groups;
    EXPECT_EQ(values_of_steps(this->device(), inputs, groups, true), expected) << groups;
  }
}

TYPED_TEST(CapturedMetricsTest, values_have_the_bits_of_the_host) {
  Inputs const inputs(this->random);
  Device<Host> const host;
  EXPECT_EQ(values_of_steps(this->device(), inputs, 3, true),
            values_of_steps(host, inputs, 3, true));
}

TYPED_TEST(CapturedMetricsTest, each_replay_adds_the_batch_again) {
  auto const scores = this->put(Floats{1, 2, 3, 4});
  auto const labels = this->put(Floats{0, 1, 0, 1});
  Auc const auc(this->device(), {.capacity = 12});
  CapturedStep<TypeParam> step(this->device(), [&] { auc.update(scores, labels); });
  EXPECT_FALSE(auc.value());
  for (int i = 0; i < 3; ++i) {
    step.replay();
    EXPECT_EQ(auc.value(), 0.75);
  }
  step.replay();
  EXPECT_THROW((void)auc.value(), std::length_error);
  auc.reset();
  step.replay();
  EXPECT_EQ(auc.value(), 0.75);
}

TYPED_TEST(CapturedMetricsTest, a_reset_can_be_captured) {
  auto const scores = this->put(Floats{1, 2});
  auto const labels = this->put(Floats{0, 1});
  Auc const auc(this->device(), {.capacity = 2});
  CapturedStep<TypeParam> step(this->device(), [&] {
    auc.reset();
    auc.update(scores, labels);
  });
  step.replay();
  step.replay();
  EXPECT_EQ(auc.value(), 1.0);
}

TYPED_TEST(CapturedMetricsTest, a_reset_in_a_replay_makes_room_for_updates_outside) {
  auto const scores = this->put(Floats{1, 2, 3});
  auto const labels = this->put(Floats{0, 1, 1});
  Auc const auc(this->device(), {.capacity = 5});
  CapturedStep<TypeParam> step(this->device(), [&] { auc.reset(); });
  for (int i = 0; i < 3; ++i) {
    step.replay();
    auc.update(scores, labels);
    EXPECT_EQ(auc.value(), 1.0);
  }
  auc.reset();
  auc.update(scores, labels);
  auc.update(scores, labels);
  EXPECT_THROW((void)auc.value(), std::length_error);
}

TYPED_TEST(CapturedMetricsTest, a_value_inside_a_capture_is_refused) {
  LogLoss const loss(this->device());
  auto const scores = this->put(Floats{1, 2});
  EXPECT_THROW(CapturedStep<TypeParam>(this->device(),
                                       [&] {
                                         loss.update(scores, scores);
                                         (void)loss.value();
                                       }),
               std::logic_error);
}

}  // namespace
}  // namespace msstream::metrics::testing
