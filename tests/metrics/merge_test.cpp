// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "metrics/metrics_fixture.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::expect_refused;
using msstream::testing::Floats;
using msstream::testing::RuntimeNames;
using msstream::testing::Runtimes;

template <class R>
class MergedMetricsTest : public MetricsTest<R> {
 protected:
  /// Compares, bit by bit, a metric of all examples with metrics of parts of them that are merged.
  template <class Make>
  void expect_merged_to_whole(Examples const& examples, Make const& make) {
    auto const whole = make();
    whole.update(this->batch(examples));
    for (std::size_t const parts : {1, 2, 4, 8}) {
      auto const merged = make();
      for (std::size_t part = 0; part < parts; ++part) {
        auto const own = make();
        auto const begin = examples.count() * part / parts;
        auto const end = examples.count() * (part + 1) / parts;
        if (begin < end) {
          own.update(this->batch(examples, begin, end));
        }
        merged.merge(own);
      }
      ASSERT_TRUE(merged.value().has_value()) << merged.name();
      EXPECT_EQ(merged.value(), whole.value()) << merged.name() << " of " << parts;
    }
  }
};
TYPED_TEST_SUITE(MergedMetricsTest, Runtimes, RuntimeNames);

TYPED_TEST(MergedMetricsTest, parts_have_the_bits_of_the_whole) {
  using R = TypeParam;
  auto const& device = this->device();
  for (bool const weighted : {false, true}) {
    auto examples = random_examples(this->random, 5001, 1000.0F, weighted);
    examples.labels[0] = 1.0F;
    examples.labels[1] = 0.0F;
    if (weighted) {
      examples.weights[0] = 1.0F;
      examples.weights[1] = 1.0F;
    }
    for (Input const input : {Input::logits, Input::probabilities}) {
      auto const given = input == Input::probabilities ? with_probabilities(examples) : examples;
      this->expect_merged_to_whole(given, [&] {
        return BucketedAuc<R>(
            device, {.input = input, .buckets = 1 << 10, .weighted = weighted, .centre = -1.0});
      });
      this->expect_merged_to_whole(given, [&] { return LogLoss<R>(device, {.input = input}); });
      this->expect_merged_to_whole(given,
                                   [&] { return NormalizedEntropy<R>(device, {.input = input}); });
      this->expect_merged_to_whole(given, [&] { return Calibration<R>(device, {.input = input}); });
      this->expect_merged_to_whole(given, [&] { return Accuracy<R>(device, {.input = input}); });
    }
  }
}

TYPED_TEST(MergedMetricsTest, parts_of_means_have_the_bits_of_the_whole) {
  using R = TypeParam;
  auto const& device = this->device();
  Examples const examples{
      this->random.reals(5001), this->random.reals(5001), this->random.reals(5001, 0.0F, 3.0F)};
  this->expect_merged_to_whole(examples, [&] { return Mean<R>(device); });
  this->expect_merged_to_whole(examples, [&] { return MeanSquaredError<R>(device); });
  this->expect_merged_to_whole(examples,
                               [&] { return MeanSquaredError<R>(device, {.squared = false}); });
  this->expect_merged_to_whole(examples, [&] { return MeanAbsoluteError<R>(device); });
}

TYPED_TEST(MergedMetricsTest, ranks_of_parts_have_the_bits_of_the_whole) {
  auto const make = [&] { return MeanReciprocalRank<TypeParam>(this->device(), {.k = 4}); };
  auto const scores = this->put(this->random.reals(60 * 7), {60, 7});
  auto const targets = this->put(this->random.integers(60, 0, 6));
  auto const weights = this->put(this->random.reals(60, 0.0F, 2.0F));
  auto const whole = make();
  whole.update({.scores = scores, .weights = weights, .targets = targets});
  auto const merged = make();
  for (std::int64_t begin = 0; begin < 60; begin += 20) {
    auto const part = make();
    part.update({.scores = scores.rows(begin, begin + 20),
                 .weights = weights.rows(begin, begin + 20),
                 .targets = targets.rows(begin, begin + 20)});
    merged.merge(part);
  }
  EXPECT_TRUE(whole.value());
  EXPECT_EQ(merged.value(), whole.value());
}

TYPED_TEST(MergedMetricsTest, lists_of_parts_have_the_bits_of_the_whole) {
  auto const list = [&](Ndcg<TypeParam> const& metric, Floats const& scores, Floats const& grades) {
    auto const count = static_cast<std::int64_t>(scores.size());
    metric.update({.scores = this->put(scores),
                   .labels = this->put(grades),
                   .offsets = this->put(std::vector<std::int64_t>{0, count})});
  };
  Ndcg<TypeParam> const whole(this->device(), {.k = 3});
  Ndcg<TypeParam> const first(this->device(), {.k = 3});
  Ndcg<TypeParam> const second(this->device(), {.k = 3});
  Floats const scores{0.1F, 0.7F, 0.3F, 0.2F};
  list(whole, scores, {0, 1, 2, 3});
  list(first, scores, {0, 1, 2, 3});
  list(whole, scores, {3, 0, 0, 1});
  list(second, scores, {3, 0, 0, 1});
  first.merge(second);
  EXPECT_EQ(first.value(), whole.value());
  EXPECT_NE(first.value(), second.value());
}

TYPED_TEST(MergedMetricsTest, more_examples_than_a_sum_holds_are_reported) {
  // Merges metrics of 2^10 examples until there are 2^bits, and twice as many.
  auto const expect_limit = [&](auto const& make, auto const& batch, int bits, double value) {
    auto const all = make();
    all.update(batch);
    auto const twice = [&] {
      auto const copy = make();
      copy.merge(all);
      all.merge(copy);
    };
    for (int merged = 10; merged < bits; ++merged) {
      twice();
    }
    EXPECT_EQ(all.value(), value);
    twice();
    EXPECT_EQ(
        msstream::testing::message_of<std::length_error>([&] { (void)all.value(); }),
        fmt::format("{}: {} examples since the last reset(); expected at most 2^{}, whose sums "
                    "are exact",
                    all.name(),
                    std::uint64_t{2} << static_cast<unsigned>(bits),
                    bits));
    all.reset();
    all.update(batch);
    EXPECT_EQ(all.value(), value);
  };
  auto const& device = this->device();
  Floats const scores(1 << 10, -3.0e18F);
  auto const put = this->put(scores);
  expect_limit(
      [&] { return Mean<TypeParam>(device); }, Batch<TypeParam>{.scores = put}, 31, scores[0]);
  expect_limit([&] { return Accuracy<TypeParam>(device); },
               Batch<TypeParam>{.scores = put, .labels = this->put(Floats(1 << 10, 0.0F))},
               32,
               1.0);
  expect_limit([&] { return RecallAtK<TypeParam>(device, {.k = 1}); },
               Batch<TypeParam>{.scores = put.reshaped({1 << 10, 1}),
                                .targets = this->put(std::vector<std::int64_t>(1 << 10, 0))},
               32,
               1.0);
}

TYPED_TEST(MergedMetricsTest, bad_numbers_of_a_part_are_reported) {
  LogLoss<TypeParam> const sum(this->device());
  LogLoss<TypeParam> const part(this->device());
  part.update(this->put(Floats{NAN, 1.0F}), this->put(Floats{0.0F, 1.0F}));
  sum.merge(part);
  expect_refused([&] { (void)sum.value(); }, "log_loss: 1 examples");
}

TYPED_TEST(MergedMetricsTest, each_replay_merges) {
  if constexpr (CapturingRuntime<TypeParam>) {
    Calibration<TypeParam> const sum(this->device());
    Calibration<TypeParam> const part(this->device());
    Calibration<TypeParam> const once(this->device());
    auto const scores = this->put(Floats{1.0F});
    auto const one = this->put(Floats{1.0F});
    once.update(scores, one);
    CapturedStep<TypeParam> step(this->device(), [&] {
      part.reset();
      part.update(scores, one);
      sum.merge(part);
    });
    step.replay();
    step.replay();
    sum.update(this->put(Floats{-20.0F, -20.0F}), this->put(Floats{1.0F, 1.0F}));
    EXPECT_NEAR(sum.value().value(), once.value().value() / 2, 1e-6);
  }
}

TYPED_TEST(MergedMetricsTest, what_is_no_sum_of_the_same_is_refused) {
  using R = TypeParam;
  auto const& device = this->device();
  Auc<R> const auc(device, {.capacity = 4});
  Auc<R> const other(device, {.capacity = 4});
  expect_refused([&] { auc.merge(other); }, "auc: keeps its examples", "BucketedAuc");
  LogLoss<R> const loss(device);
  expect_refused([&] { loss.merge(loss); }, "log_loss: merged with itself");
  expect_refused([&] { loss.merge(LogLoss<R>(device, {.input = Input::probabilities})); },
                 "the log loss of logits",
                 "the log loss of probabilities");
  expect_refused([&] { loss.merge(Accuracy<R>(device)); }, "log loss", "the accuracy of logits");
  Device<R> const elsewhere;
  expect_refused([&] { loss.merge(LogLoss<R>(elsewhere)); }, "another device");
  BucketedAuc<R> const buckets(device, {.buckets = 1 << 8});
  BucketedAuc<R> const more(device, {.buckets = 1 << 8});
  expect_refused([&] { buckets.merge(more); }, "bucketed_auc", "BucketedAuc::Options::sample");
  BucketedAuc<R> const of_one(device, {.sample = {1.0F}});
  BucketedAuc<R> const of_two(device, {.centre = 1.0, .sample = {1.0F, 2.0F}});
  expect_refused([&] { of_one.merge(of_two); }, "a sample of 1 scores", "a sample of 2 scores");
  BucketedAuc<R> const at_one(device, {.buckets = 1 << 8, .centre = 1.0});
  BucketedAuc<R> const at_two(device, {.buckets = 1 << 8, .centre = 2.0});
  expect_refused([&] { at_one.merge(at_two); }, "logits around 1", "logits around 2");
  expect_refused([&] { BucketedAuc<R>(device, {.centre = kInfinity}); }, "a centre of inf");
}

}  // namespace
}  // namespace msstream::metrics::testing
