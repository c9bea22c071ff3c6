// SPDX-License-Identifier: Apache-2.0
// Tests of metrics of the relevant items of lists.
#include "metrics/metrics_fixture.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::expect_refused;
using msstream::testing::RuntimeNames;
using msstream::testing::Runtimes;

/// Recall, hit rate, reciprocal rank and average precision.
using Merits = std::array<double, 4>;

/// Returns the merits of one order of a list, of items that are relevant or not.
Merits merits_of_order(std::vector<bool> const& relevant, std::int64_t k) {
  double const all = static_cast<double>(std::count(relevant.begin(), relevant.end(), true));
  double found = 0.0;
  Merits merits{};
  for (std::size_t i = 0; i < relevant.size() && static_cast<std::int64_t>(i) < k; ++i) {
    if (relevant[i]) {
      found += 1.0;
      merits[1] = 1.0;
      merits[2] = std::max(merits[2], 1.0 / static_cast<double>(i + 1));
      merits[3] += found / static_cast<double>(i + 1);
    }
  }
  merits[0] = found / all;
  merits[3] /= std::min(all, static_cast<double>(k));
  return merits;
}

/// Returns the mean merits over all orders of a list in which scores descend; empty without a
/// relevant item. Without ties there is one order.
std::optional<Merits> mean_merits(Floats const& scores, Floats const& labels, std::int64_t k) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (std::ranges::none_of(labels, [](float label) { return label > 0.5F; })) {
    return std::nullopt;
  }
  auto const is_better = [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; };
  std::ranges::sort(order, is_better);
  Floats sorted;
  for (auto const i : order) {
    sorted.push_back(scores[i]);
  }
  bool const is_tied = std::ranges::adjacent_find(sorted) != sorted.end();
  Merits sum{};
  double orders = 0.0;
  if (is_tied) {
    std::ranges::sort(order);
  }
  do {
    if (!std::ranges::is_sorted(order, is_better)) {
      continue;
    }
    std::vector<bool> relevant;
    for (auto const i : order) {
      relevant.push_back(labels[i] > 0.5F);
    }
    auto const merits = merits_of_order(relevant, k);
    for (std::size_t m = 0; m < sum.size(); ++m) {
      sum[m] += merits[m];
    }
    orders += 1.0;
  } while (is_tied && std::ranges::next_permutation(order).found);
  for (auto& merit : sum) {
    merit /= orders;
  }
  return sum;
}

template <class R>
struct ListMetrics {
  ListMetrics(Device<R> const& device, std::int64_t k)
      : recall(device, {.k = k}),
        hits(device, {.k = k}),
        mrr(device, {.k = k}),
        map(device, {.k = k}) {}

  [[nodiscard]] MetricSet<R> set() const { return MetricSet<R>(recall, hits, mrr, map); }
  [[nodiscard]] std::array<std::optional<double>, 4> values() const {
    return {recall.value(), hits.value(), mrr.value(), map.value()};
  }

  RecallAtK<R> recall;
  HitRate<R> hits;
  MeanReciprocalRank<R> mrr;
  MeanAveragePrecision<R> map;
};

template <class R>
class ListsTest : public MetricsTest<R> {
 protected:
  struct Lists {
    Floats scores;
    Floats labels;
    Integers offsets{0};
  };
  Lists random_lists(int count, std::int64_t most, float steps) {
    Lists lists;
    for (int list = 0; list < count; ++list) {
      auto const items = this->random.integer(0, most);
      for (std::int64_t i = 0; i < items; ++i) {
        lists.scores.push_back(std::round(this->random.real(0.0F, 1.0F) * steps) / steps);
        lists.labels.push_back(this->random.integer(0, 2) == 0 ? 1.0F : 0.25F);
      }
      lists.offsets.push_back(static_cast<std::int64_t>(lists.scores.size()));
    }
    return lists;
  }
  Batch<R> put_lists(Lists const& lists) const {
    return {.scores = this->put(lists.scores),
            .labels = this->put(lists.labels),
            .offsets = this->put(lists.offsets)};
  }
  static void expect_means(ListMetrics<R> const& metrics, Lists const& lists, std::int64_t k) {
    Merits sum{};
    double count = 0.0;
    for (std::size_t list = 0; list + 1 < lists.offsets.size(); ++list) {
      auto const part = [&](Floats const& values) {
        return Floats(values.begin() + lists.offsets[list],
                      values.begin() + lists.offsets[list + 1]);
      };
      if (auto const merits = mean_merits(part(lists.scores), part(lists.labels), k)) {
        count += 1.0;
        for (std::size_t m = 0; m < sum.size(); ++m) {
          sum[m] += (*merits)[m];
        }
      }
    }
    auto const values = metrics.values();
    for (std::size_t m = 0; m < sum.size(); ++m) {
      ASSERT_EQ(values[m].has_value(), count > 0.0);
      if (count > 0.0) {
        EXPECT_NEAR(*values[m], sum[m] / count, 1e-12) << "metric " << m << " of k " << k;
      }
    }
  }
};
TYPED_TEST_SUITE(ListsTest, Runtimes, RuntimeNames);

TYPED_TEST(ListsTest, ties_have_the_mean_over_all_orders) {
  for (std::int64_t const k : {1, 2, 4, 10}) {
    for (float const steps : {1.0F, 3.0F}) {
      auto const lists = this->random_lists(60, 6, steps);
      ListMetrics<TypeParam> const metrics(this->device(), k);
      metrics.set().update(this->put_lists(lists));
      this->expect_means(metrics, lists, k);
    }
  }
}

TYPED_TEST(ListsTest, long_lists_are_those_of_a_sort) {
  for (std::int64_t const k : {1, 10, 300, 100'000}) {
    auto lists = this->random_lists(12, 700, 1.0F);
    for (std::size_t i = 0; i < lists.scores.size(); ++i) {
      // All scores differ.
      lists.scores[i] = static_cast<float>((i * 7'919) % 16'381) - 8'000.0F;
    }
    ListMetrics<TypeParam> const metrics(this->device(), k);
    metrics.set().update(this->put_lists(lists));
    this->expect_means(metrics, lists, k);
  }
}

TYPED_TEST(ListsTest, known_lists) {
  ListMetrics<TypeParam> const metrics(this->device(), 3);
  EXPECT_FALSE(metrics.map.value());
  // The ranks of relevant items are 2, 4 and 5 of the first list, and the second list has none.
  typename ListsTest<TypeParam>::Lists const lists{
      {9, 8, 7, 6, 5, 1, 2}, {0, 1, 0.5F, 1, 0.75F, 0, 0}, {0, 5, 7}};
  auto batch = this->put_lists(lists);
  metrics.set().update(batch);
  EXPECT_NEAR(*metrics.recall.value(), 1.0 / 3.0, 1e-15);
  EXPECT_EQ(metrics.hits.value(), 1.0);
  EXPECT_EQ(metrics.mrr.value(), 0.5);
  EXPECT_NEAR(*metrics.map.value(), 0.5 / 3.0, 1e-15);
  metrics.set().reset();
  // With a count of 2, the list has its first two items.
  batch.count = this->scalar(2);
  metrics.set().update(batch);
  EXPECT_EQ(metrics.recall.value(), 1.0);
  EXPECT_EQ(metrics.map.value(), 0.5);
  metrics.set().reset();
  batch.count = this->scalar(0);
  metrics.set().update(batch);
  EXPECT_FALSE(metrics.hits.value());
}

TYPED_TEST(ListsTest, items_of_weight_0_are_left_out) {
  ListMetrics<TypeParam> const metrics(this->device(), 2);
  metrics.set().update({.scores = this->put(Floats{NAN, 3, 2, 1, 7}),
                        .labels = this->put(Floats{1, 0, 1, 1, NAN}),
                        .weights = this->put(Floats{0, 1, 1, 1, 0}),
                        .offsets = this->put(Integers{0, 5})});
  EXPECT_EQ(metrics.recall.value(), 0.5);
  EXPECT_EQ(metrics.mrr.value(), 0.5);
  EXPECT_EQ(metrics.map.value(), 0.25);
}

TYPED_TEST(ListsTest, rows_with_one_target_have_the_values_of_lists) {
  ListMetrics<TypeParam> const of_targets(this->device(), 4);
  ListMetrics<TypeParam> const of_lists(this->device(), 4);
  auto const scores = this->random.reals(50 * 9);
  auto const targets = this->random.integers(50, 0, 8);
  Floats labels(50 * 9, 0.0F);
  Integers offsets{0};
  for (std::size_t row = 0; row < 50; ++row) {
    labels[row * 9 + static_cast<std::size_t>(targets[row])] = 1.0F;
    offsets.push_back(static_cast<std::int64_t>(row + 1) * 9);
  }
  of_targets.set().update({.scores = this->put(scores, {50, 9}), .targets = this->put(targets)});
  of_lists.set().update(
      {.scores = this->put(scores), .labels = this->put(labels), .offsets = this->put(offsets)});
  for (std::size_t m = 0; m < 4; ++m) {
    EXPECT_NEAR(of_targets.values()[m].value(), of_lists.values()[m].value(), 1e-14);
  }
  EXPECT_EQ(of_targets.hits.value(), of_targets.recall.value());
  EXPECT_EQ(of_targets.map.value(), of_targets.mrr.value());
}

TYPED_TEST(ListsTest, parts_have_the_bits_of_the_whole_captured_or_not) {
  auto const lists = this->random_lists(40, 30, 8.0F);
  ListMetrics<TypeParam> const whole(this->device(), 5);
  whole.set().update(this->put_lists(lists));
  whole.set().update(this->put_lists(lists));
  ListMetrics<TypeParam> const sum(this->device(), 5);
  ListMetrics<TypeParam> const part(this->device(), 5);
  auto const batch = this->put_lists(lists);
  if constexpr (CapturingRuntime<TypeParam>) {
    CapturedStep<TypeParam> step(this->device(), [&] { part.set().update(batch); });
    step.replay();
  } else {
    part.set().update(batch);
  }
  for (int i = 0; i < 2; ++i) {
    sum.recall.merge(part.recall);
    sum.hits.merge(part.hits);
    sum.mrr.merge(part.mrr);
    sum.map.merge(part.map);
  }
  EXPECT_EQ(sum.values(), whole.values());
  expect_refused([&] { sum.hits.merge(part.recall); }, "the hit rate@5", "recall@5");
}

TYPED_TEST(ListsTest, wrong_lists_are_reported) {
  ListMetrics<TypeParam> const metrics(this->device(), 2);
  auto const update = [&](Floats const& scores, Floats const& labels, Integers const& offsets) {
    metrics.map.reset();
    metrics.map.update(
        {.scores = this->put(scores), .labels = this->put(labels), .offsets = this->put(offsets)});
  };
  auto const value = [&] { (void)metrics.map.value(); };
  update({1, NAN, 3}, {1, 0, 1}, {0, 2, 3});
  expect_refused(value, "map: 1 rows or items", "NaN");
  update({1, 2, 3}, {2, 0, -1}, {0, 2, 3});
  expect_refused(value, "map: 2 rows", "labels outside [0, 1]");
  update({1, 2, 3}, {1, 0, 1}, {0, 2, 1});
  expect_refused(value, "map: 1 examples", "wrong offsets");
  update({1, 2, 3}, {1, 0, 1}, {0, 2, 3});
  EXPECT_TRUE(metrics.map.value());
  expect_refused([&] { metrics.map.update(this->put(Floats{1}), this->put(Floats{1})); },
                 "map: a batch without targets and offsets");
  expect_refused(
      [&] {
        metrics.map.update({.scores = this->put(Floats{1}), .offsets = this->put(Integers{0, 1})});
      },
      "map: a batch without labels");
  expect_refused([&] { HitRate(this->device(), {.k = 0}); }, "hit_rate: k is 0");
}

}  // namespace
}  // namespace msstream::metrics::testing
