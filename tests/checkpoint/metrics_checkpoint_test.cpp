// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/msstream.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kExamples = 300;
constexpr std::int64_t kMost = 4 * kExamples;

/// One metric of each kind.
template <class R>
struct AllMetrics {
  explicit AllMetrics(Device<R> const& device)
      : clicks(metrics::Auc(device, {.capacity = kMost}),
               metrics::BucketedAuc(device, {.buckets = 1 << 10}),
               metrics::LogLoss(device),
               metrics::Calibration(device),
               metrics::Mean(device),
               metrics::MeanSquaredError(device),
               metrics::GroupedAuc(device, {.capacity = kMost})),
        weighted(metrics::Auc(device, {.name = "weighted", .capacity = kMost, .weighted = true}),
                 metrics::BucketedAuc(device,
                                      {.name = "of_sample",
                                       .buckets = 1 << 10,
                                       .weighted = true,
                                       .sample = {-1.0F, 0.0F, 1.0F}})),
        lists(device, {.k = 5}),
        targets(metrics::RecallAtK(device, {.k = 3}), metrics::MeanReciprocalRank(device)) {}

  template <class Visit>
  void visit(Visit&& visit) const {
    clicks.visit_state(visit);
    weighted.visit_state(visit);
    lists.visit_state(visit);
    targets.visit_state(visit);
  }
  void reset() const {
    clicks.reset();
    weighted.reset();
    lists.reset();
    targets.reset();
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::optional<double>>> values() const {
    auto all = clicks.values();
    for (auto const& more : {weighted.values(), targets.values()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    all.emplace_back("lists", lists.value());
    return all;
  }

  metrics::MetricSet<R> clicks;
  metrics::MetricSet<R> weighted;
  metrics::Ndcg<R> lists;
  metrics::MetricSet<R> targets;
};

template <class R>
class MetricsCheckpointTest : public OpsTest<R> {
 protected:
  struct Drawn {
    Floats scores;
    Floats labels;
    Floats weights;
    Integers targets;
  };

  /// Updates all metrics with the batch of a number.
  void update(AllMetrics<R> const& all, int number) {
    auto const [place, is_new] = drawn_.try_emplace(number);
    auto& batch = place->second;
    if (is_new) {
      batch = {this->random.reals(kExamples, -3.0F, 1.0F),
               this->random.reals(kExamples, 0.0F, 1.0F),
               this->random.reals(kExamples, 0.0F, 2.0F),
               this->random.integers(kExamples / 10, 0, 9)};
    }
    auto const scores = this->put(batch.scores);
    auto const labels = this->put(batch.labels);
    Integers users;
    for (std::int64_t i = 0; i < kExamples; ++i) {
      users.push_back(i % 7);
    }
    all.clicks.update({.scores = scores, .labels = labels, .users = this->put(users)});
    all.weighted.update({.scores = scores, .labels = labels, .weights = this->put(batch.weights)});
    all.lists.update(
        {.scores = scores, .labels = labels, .offsets = this->put(Integers{0, 100, kExamples})});
    all.targets.update(
        {.scores = scores.reshaped({kExamples / 10, 10}), .targets = this->put(batch.targets)});
  }

  std::map<int, Drawn> drawn_;
  TemporaryFolder folder_;
};
TYPED_TEST_SUITE(MetricsCheckpointTest, Runtimes, RuntimeNames);

TYPED_TEST(MetricsCheckpointTest, goes_on_in_the_middle_of_an_evaluation) {
  using checkpoint::Tensors;
  auto const& device = this->device();
  auto const path = this->folder_ / "metrics.safetensors";
  AllMetrics<TypeParam> const whole(device);
  this->update(whole, 1);
  this->update(whole, 2);
  checkpoint::save(path, Tensors(whole));
  this->update(whole, 3);
  auto const expected = whole.values();

  AllMetrics<TypeParam> const resumed(device);
  this->update(resumed, 4);  // is forgotten
  checkpoint::load(path, Tensors(resumed));
  this->update(resumed, 3);
  EXPECT_EQ(resumed.values(), expected);
  // The state goes on to change as before.
  resumed.reset();
  whole.reset();
  this->update(resumed, 5);
  this->update(whole, 5);
  EXPECT_EQ(resumed.values(), whole.values());
}

TYPED_TEST(MetricsCheckpointTest, a_captured_step_goes_on_with_what_is_loaded) {
  if constexpr (CapturingRuntime<TypeParam>) {
    auto const& device = this->device();
    auto const path = this->folder_ / "metrics.safetensors";
    AllMetrics<TypeParam> const all(device);
    this->update(all, 1);
    checkpoint::save(path, checkpoint::Tensors(all));
    CapturedStep<TypeParam> step(
        device,
        [&, scores = this->put(Floats{0.5F, 2.0F, -1.0F}), labels = this->put(Floats{1, 0, 1})] {
          all.weighted.update({.scores = scores, .labels = labels, .weights = labels});
        });
    step.replay();
    auto const once = all.weighted.values();
    step.replay();
    EXPECT_NE(all.weighted.values(), once);
    checkpoint::load(path, checkpoint::Tensors(all));
    step.replay();
    EXPECT_EQ(all.weighted.values(), once);
  }
}

TYPED_TEST(MetricsCheckpointTest, are_saved_beside_parameters) {
  auto const& device = this->device();
  auto const path = this->folder_ / "model.safetensors";
  Parameters<TypeParam> parameters(device, {.seed = 1});
  static_cast<void>(parameters.dense("w", {2}, init::constant(3.0F)));
  metrics::Auc const auc(device);
  metrics::MetricSet const running(auc, metrics::Mean(device, {.name = "loss"}));
  checkpoint::Tensors const tensors(parameters, running);
  checkpoint::save(path, tensors);
  checkpoint::load(path, checkpoint::Tensors(parameters), {.allow_unexpected = true});
  checkpoint::save(path, checkpoint::Tensors(parameters));
  checkpoint::load(path, tensors, {.except = {"metrics/*"}});
  auto const two = checkpoint::Tensors().add("clicks", running).add("orders", running);
  checkpoint::save(path, two);
  EXPECT_EQ(checkpoint::load(path, two).tensors.size(), 2U * 6U);
}

TYPED_TEST(MetricsCheckpointTest, a_capacity_holds_for_examples_that_were_loaded) {
  auto const path = this->folder_ / "metrics.safetensors";
  auto const& device = this->device();
  metrics::Auc const auc(device, {.capacity = 4});
  checkpoint::Tensors const tensors(auc);
  auto const three = this->put(Floats{1, 2, 3});
  auto const labels = this->put(Floats{0, 1, 0});
  checkpoint::save(path, tensors);  // without examples
  auc.update(three, labels);
  EXPECT_THROW(auc.update(three, labels), std::length_error);
  checkpoint::load(path, tensors);
  auc.update(three, labels);  // has room again
  EXPECT_EQ(auc.value(), 0.5);
  auc.update(three, labels);  // the host does not know what was loaded
  EXPECT_THROW(static_cast<void>(auc.value()), std::length_error);
  auc.reset();
  auc.update(three, labels);
  EXPECT_THROW(auc.update(three, labels), std::length_error);
}

TYPED_TEST(MetricsCheckpointTest, metrics_of_other_kinds_are_refused_by_name) {
  auto const path = this->folder_ / "metrics.safetensors";
  auto const& device = this->device();
  auto const refusal = [&](auto const& saved, auto const& loaded) {
    checkpoint::save(path, checkpoint::Tensors(saved));
    return message_of<std::invalid_argument>(
        [&] { checkpoint::load(path, checkpoint::Tensors(loaded)); });
  };
  EXPECT_THAT(refusal(metrics::LogLoss(device, {.name = "loss"}),
                      metrics::NormalizedEntropy(device, {.name = "loss"})),
              HasSubstr("not what the program states: metrics/loss/kind (the metric of the file is "
                        "the log loss of logits within"));
  EXPECT_THAT(refusal(metrics::BucketedAuc(device, {.centre = 1.0}),
                      metrics::BucketedAuc(device, {.centre = 2.0})),
              HasSubstr("buckets of logits around 1, that of the program is"));
  EXPECT_THAT(
      refusal(metrics::Auc(device, {.capacity = 4}), metrics::Auc(device, {.capacity = 8})),
      HasSubstr("of another shape or type: metrics/auc/scores (expected F32 [8], found F32 [4])"));
  EXPECT_THAT(refusal(metrics::Mean(device), metrics::LogLoss(device)),
              HasSubstr("missing in the file: metrics/log_loss/state"));
}

}  // namespace
}  // namespace msstream::testing
