// SPDX-License-Identifier: Apache-2.0
// Tests of examples whose weight is 0, which metrics leave out.
#include "metrics/metrics_fixture.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::expect_refused;

template <class R>
class LeftOutTest : public MetricsTest<R> {
 protected:
  /// Returns weights of 0 and 1.
  Floats marks(std::int64_t count) {
    Floats drawn;
    for (std::int64_t i = 0; i < count; ++i) {
      drawn.push_back(static_cast<float>(this->random.integer(0, 1)));
    }
    return drawn;
  }
};
TYPED_TEST_SUITE(LeftOutTest, msstream::testing::Runtimes, msstream::testing::RuntimeNames);

TYPED_TEST(LeftOutTest, padding_of_any_numbers_changes_nothing) {
  constexpr std::int64_t kCount = 700;
  constexpr std::int64_t kAll = 3 * kCount;
  // Two examples out of three are padding, also the first 500 of all.
  auto const examples = random_examples(this->random, kCount, 20.0F, false);
  auto const users = this->random.integers(kCount, 0, 20);
  Examples ones = examples;
  ones.weights.assign(kCount, 1.0F);
  Examples padded;
  Integers padded_users;
  auto const pad = [&](std::int64_t count) {
    Floats const bad{std::nanf(""), -std::nanf(""), kInfinity, -kInfinity, 7.0F};
    for (std::int64_t i = 0; i < count; ++i) {
      padded.scores.push_back(bad[static_cast<std::size_t>(this->random.integer(0, 4))]);
      padded.labels.push_back(bad[static_cast<std::size_t>(this->random.integer(0, 4))]);
      padded.weights.push_back(this->random.integer(0, 1) == 0 ? 0.0F : -0.0F);
      padded_users.push_back(this->random.integer(-2, 20));
    }
  };
  pad(500);
  for (std::size_t i = 0; i < examples.count(); ++i) {
    padded.scores.push_back(examples.scores[i]);
    padded.labels.push_back(examples.labels[i]);
    padded.weights.push_back(1.0F);
    padded_users.push_back(users[i]);
    pad(i + 1 < examples.count() ? 1 : kAll - 500 - 2 * kCount + 1);
  }
  ASSERT_EQ(padded.count(), static_cast<std::size_t>(kAll));
  auto const values_of = [&](Examples const& given, Integers const& given_users) {
    Auc const auc(this->device(), {.capacity = kAll, .weighted = true});
    GroupedAuc const grouped(this->device(), {.capacity = kAll, .weighted = true});
    MetricSet const all(grouped,
                        BucketedAuc(this->device(), {.weighted = true}),
                        LogLoss(this->device()),
                        NormalizedEntropy(this->device()),
                        Calibration(this->device()),
                        Accuracy(this->device()),
                        Mean(this->device()),
                        MeanSquaredError(this->device()),
                        MeanAbsoluteError(this->device()));
    auto batch = this->batch(given);
    batch.users = this->put(given_users);
    update({all.with(batch), MetricSet(auc).with(batch)});
    expect_value(auc.value(), auc_by_pairs(examples), 1e-12);
    return all.values();
  };
  EXPECT_EQ(values_of(padded, padded_users), values_of(ones, users));
  // Probabilities, and lists.
  auto const of_list = [&](Examples const& given) {
    BucketedAuc const bucketed(this->device(), {.input = Input::probabilities, .weighted = true});
    LogLoss const log_loss(this->device(), {.input = Input::probabilities});
    Ndcg const ndcg(this->device(), {.k = 50});
    auto batch = this->batch(with_probabilities(given));
    batch.offsets = this->put(Integers{0, static_cast<std::int64_t>(given.count())});
    MetricSet const all(bucketed, log_loss, ndcg);
    all.update(batch);
    return all.values();
  };
  EXPECT_EQ(of_list(padded), of_list(ones));
}

TYPED_TEST(LeftOutTest, a_batch_of_padding_alone_changes_nothing) {
  Floats const bad(600, std::nanf(""));
  Floats const none(600, 0.0F);
  BucketedAuc const bucketed(this->device(), {.weighted = true});
  Auc const auc(this->device(), {.capacity = 1000, .weighted = true});
  LogLoss const log_loss(this->device());
  MetricSet const all(bucketed, auc, log_loss);
  all.update(this->batch({bad, bad, none}));
  for (auto const& [name, value] : all.values()) {
    EXPECT_FALSE(value) << name;
  }
  // Scores that only buckets around 3 tell apart.
  all.update(this->batch({{3, 3.000001F, 3.000002F, 3.000003F}, {0, 1, 0, 1}, {1, 1, 1, 1}}));
  EXPECT_EQ(bucketed.value(), 0.75);
  EXPECT_EQ(auc.value(), 0.75);
}

TYPED_TEST(LeftOutTest, users_are_weighed_by_the_examples_that_count) {
  for (std::int64_t const count : {1, 33, 257, 5000}) {
    auto examples = random_examples(this->random, count, 5.0F, false);
    examples.weights = this->marks(count);
    auto const users = this->random.integers(count, 0, count / 8);
    Examples counted;
    Integers users_counted;
    for (std::size_t i = 0; i < users.size(); ++i) {
      if (examples.weights[i] != 0.0F) {
        counted.scores.push_back(examples.scores[i]);
        counted.labels.push_back(examples.labels[i]);
        users_counted.push_back(users[i]);
      }
    }
    GroupedAuc const grouped(this->device(), {.capacity = count, .weighted = true});
    auto batch = this->batch(examples);
    batch.users = this->put(users);
    grouped.update(batch);
    expect_value(grouped.value(), grouped_auc(counted, users_counted), 1e-12);
  }
}

TYPED_TEST(LeftOutTest, items_of_lists_are_ranked_without_the_others) {
  Integers offsets{0};
  Integers offsets_counted{0};
  Floats scores;
  Floats grades;
  Floats marks;
  Floats scores_counted;
  Floats grades_counted;
  for (std::int64_t const length : {0, 1, 5, 33, 257, 600}) {
    for (std::int64_t i = 0; i < length; ++i) {
      scores.push_back(static_cast<float>(this->random.integer(0, 40)) / 7.0F);
      grades.push_back(static_cast<float>(this->random.integer(0, 4)));
      marks.push_back(static_cast<float>(this->random.integer(0, 1)));
      if (marks.back() != 0.0F) {
        scores_counted.push_back(scores.back());
        grades_counted.push_back(grades.back());
      }
    }
    offsets.push_back(static_cast<std::int64_t>(scores.size()));
    offsets_counted.push_back(static_cast<std::int64_t>(scores_counted.size()));
  }
  Ndcg const ndcg(this->device());
  ndcg.update({.scores = this->put(scores),
               .labels = this->put(grades),
               .weights = this->put(marks),
               .offsets = this->put(offsets)});
  expect_value(
      ndcg.value(), mean_ndcg(scores_counted, grades_counted, offsets_counted, 10, true), 1e-12);
}

TYPED_TEST(LeftOutTest, weights_that_are_neither_0_nor_1_are_reported) {
  GroupedAuc const grouped(this->device(), {.capacity = 4, .weighted = true});
  auto batch = this->batch({{1, 2}, {0, 1}, {1, 0.5F}});
  batch.users = this->put(Integers{1, 1});
  grouped.update(batch);
  expect_refused([&] { (void)grouped.value(); }, "grouped_auc: 1 examples", "neither 0 nor 1");
  Ndcg const ndcg(this->device());
  batch.offsets = this->put(Integers{0, 2});
  ndcg.update(batch);
  expect_refused([&] { (void)ndcg.value(); }, "ndcg: 1 offsets or weights", "weights of 0 or 1");
}

/// A training with a batch norm, whose batches have 64 rows and the last one fewer, and metrics of
/// its scores.
template <Runtime R>
struct Epoch {
  static constexpr std::int64_t kRows = 64;
  static constexpr std::int64_t kFeatures = 5;

  explicit Epoch(Device<R> const& on)
      : device(on),
        parameters(device, {.seed = 7}),
        stack(parameters,
              "stack",
              kFeatures,
              {8, 1},
              {.activation = TrainedActivation::dice, .batch_norm = true}),
        optimizer(device, {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.1F}),
        grouped(device, {.capacity = 1000, .weighted = true}),
        log_loss(device) {
    optimizer.add(parameters);
  }
  void step(Tensor<float, R> const& features,
            Tensor<float, R> const& labels,
            Tensor<float, R> const& mask,
            Tensor<std::int64_t, R> const& users) {
    GradientTape<R> tape(device);
    auto const logits = stack(tape, features, {.mask = mask});
    loss = ops::mean_bce_with_logits(
        tape, logits, labels, {.weight = mask, .reduction = ops::LossReduction::weighted_mean});
    tape.backward(*loss);
    optimizer.step(tape);
    MetricSet(grouped, log_loss)
        .update({.scores = logits, .labels = labels, .weights = mask, .users = users});
  }
  /// Returns the loss of the last step, the log loss of all, and all parameters and statistics.
  [[nodiscard]] Doubles results() const {
    Doubles all{to_host(*loss)[0], *log_loss.value()};
    parameters.visit_state([&](std::string const&, auto const& tensor) {
      if constexpr (std::same_as<decltype(tensor), Tensor<float, R> const&>) {
        for (float const value : to_host(tensor)) {
          all.push_back(value);
        }
      }
    });
    return all;
  }

  Device<R> device;
  Parameters<R> parameters;
  DenseStack<R> stack;
  Optimizer<R> optimizer;
  GroupedAuc<R> grouped;
  LogLoss<R> log_loss;
  std::optional<Tensor<float, R>> loss;
};

TYPED_TEST(LeftOutTest, a_captured_padded_epoch_equals_an_eager_one_with_a_short_last_batch) {
  constexpr auto kRows = Epoch<TypeParam>::kRows;
  constexpr auto kFeatures = Epoch<TypeParam>::kFeatures;
  constexpr std::int64_t kLast = 9;
  auto const& device = this->device();
  Epoch<TypeParam> eager(device);
  Epoch<TypeParam> padded(device);
  auto const features = zeros<float>(device, {kRows, kFeatures});
  auto const labels = zeros<float>(device, {kRows, 1});
  auto const mask = zeros<float>(device, {kRows});
  auto const users = zeros<std::int64_t>(device, {kRows});
  CapturedStep<TypeParam> captured(device, [&] { padded.step(features, labels, mask, users); });
  for (std::int64_t const rows : {kRows, kRows, kLast}) {
    auto const x = this->random.reals(rows * kFeatures);
    auto const y = this->marks(rows);
    auto const of = this->random.integers(rows, 0, 9);
    eager.step(this->put(x, {rows, kFeatures}),
               this->put(y, {rows, 1}),
               this->put(Floats(static_cast<std::size_t>(rows), 1.0F)),
               this->put(of));
    auto const fill = [&](auto const& to, auto values) {
      values.resize(static_cast<std::size_t>(to.count()));
      copy(to, this->put(values, to.shape()));
    };
    fill(features, x);
    fill(labels, y);
    fill(mask, Floats(static_cast<std::size_t>(rows), 1.0F));
    fill(users, of);
    captured.replay();
  }
  // Scores that are almost equal may be rounded to another order.
  EXPECT_NEAR(*padded.grouped.value(), *eager.grouped.value(), 0.02);
  auto const found = padded.results();
  auto const expected = eager.results();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
  }
}

}  // namespace
}  // namespace msstream::metrics::testing
