// SPDX-License-Identifier: Apache-2.0
#include "datasets/generated.hpp"

#include "datasets/dataset.hpp"

#include <msstream/metrics/auc.hpp>
#include <msstream/tensor/copy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace msstream::datasets {
namespace {

/// Returns the exact area under the ROC curve of examples of both classes.
double auc_of(std::vector<float> const& scores, std::vector<float> const& labels) {
  Device<Host> const device;
  auto const count = static_cast<std::int64_t>(scores.size());
  metrics::Auc const auc(device, {.capacity = count});
  auc.update(to_device(device, scores, {count}), to_device(device, labels, {count}));
  return auc.value().value();
}

TEST(Generated, is_shaped_as_criteo) {
  GeneratedData const data({.largest_cardinality = 1000});
  EXPECT_EQ(data.schema().categorical.size(), 26U);
  EXPECT_EQ(data.schema().continuous.size(), 13U);
  EXPECT_EQ(std::ranges::max(data.cardinalities()), 1000);
  auto const block = data.block(0, 5);
  EXPECT_EQ(block.keys.size(), 5 * 26U);
  EXPECT_EQ(block.continuous.size(), 5 * 13U);
  EXPECT_EQ(block.labels.size(), 5U);
}

TEST(Generated, a_row_depends_on_seed_and_number_alone) {
  GeneratedData const data({.seed = 3, .hotness = 2});
  auto const all = data.block(0, 100);
  auto const one = data.block(77, 1);
  std::size_t const width = data.schema().keys_per_row();
  EXPECT_TRUE(
      std::equal(one.keys.begin(), one.keys.end(), all.keys.begin() + std::ptrdiff_t(77 * width)));
  EXPECT_TRUE(
      std::equal(one.continuous.begin(), one.continuous.end(), all.continuous.begin() + 77 * 13));
  EXPECT_EQ(one.labels[0], all.labels[77]);
  EXPECT_NE(GeneratedData({.seed = 4, .hotness = 2}).block(77, 1).keys, one.keys);
}

TEST(Generated, the_source_gives_the_same_rows_whatever_the_threads) {
  GeneratedOptions const options{.rows = 10'000, .seed = 9};
  GeneratedSource source(options);
  auto const loaded = load_dataset(source, 3);
  ASSERT_EQ(loaded.rows(), 10'000);
  auto const block = GeneratedData(options).block(9'999, 1);
  EXPECT_TRUE(std::ranges::equal(loaded.keys(9'999), block.keys));
  EXPECT_TRUE(std::ranges::equal(loaded.continuous(9'999), block.continuous));
}

TEST(Generated, hotness_is_keys_a_field) {
  GeneratedSource source({.rows = 10, .hotness = 4});
  auto const data = load_dataset(source, 1);
  EXPECT_EQ(data.keys(0).size(), 26 * 4U);
}

TEST(Generated, tasks_have_labels_of_their_own_and_share_the_row) {
  constexpr std::int64_t rows = 20'000;
  GeneratedData const one({.seed = 5, .largest_cardinality = 1000});
  GeneratedData const three({.seed = 5, .largest_cardinality = 1000, .tasks = 3});
  EXPECT_EQ(three.schema().labels, (std::vector<std::string>{"Label", "Label2", "Label3"}));
  auto const single = one.block(0, rows);
  auto const block = three.block(0, rows);
  EXPECT_EQ(block.keys, single.keys);
  EXPECT_EQ(block.continuous, single.continuous);
  ASSERT_EQ(block.labels.size(), std::size_t{3} * rows);
  // The true logits of each task also predict the labels of the other tasks, but less well.
  for (int of = 0; of < 3; ++of) {
    for (int by = 0; by < 3; ++by) {
      std::vector<float> scores;
      std::vector<float> labels;
      for (std::int64_t row = 0; row < rows; ++row) {
        scores.push_back(static_cast<float>(three.true_logit(row, by)));
        labels.push_back(block.labels[static_cast<std::size_t>(3 * row + of)]);
        EXPECT_TRUE(of != 0 || labels.back() == single.labels[static_cast<std::size_t>(row)]);
      }
      auto const auc = auc_of(scores, labels);
      EXPECT_GT(auc, of == by ? 0.83 : 0.6) << of << " by " << by;
      EXPECT_LT(auc, of == by ? 0.92 : 0.82) << of << " by " << by;
    }
  }
  EXPECT_THROW(GeneratedData({.tasks = 0}), std::invalid_argument);
  EXPECT_THROW(GeneratedData({.tasks = 65}), std::invalid_argument);
}

TEST(Generated, popularity_follows_a_power_law) {
  GeneratedData const data({});
  constexpr std::int64_t rows = 50'000;
  auto const block = data.block(0, rows);
  std::size_t const field = 0;  // a field of 1,460 values
  std::unordered_map<std::int64_t, int> count;
  for (std::size_t row = 0; row < rows; ++row) {
    ++count[block.keys[row * 26 + field]];
  }
  std::vector<int> sorted;
  for (auto const& [key, times] : count) {
    sorted.push_back(times);
  }
  std::ranges::sort(sorted, std::greater());
  // The expected share of the r-th most frequent key is the integral of x^-1.05 over [r, r + 1),
  // divided by the integral over [1, 1461).
  auto const tail = [](double x) { return std::pow(x, -0.05); };
  for (int const rank : {1, 2, 10, 50}) {
    double const share = (tail(rank) - tail(rank + 1)) / (tail(1) - tail(1461));
    double const expected = share * rows;
    EXPECT_NEAR(sorted[static_cast<std::size_t>(rank - 1)], expected, 5 * std::sqrt(expected));
  }
  EXPECT_LE(count.size(), 1460U);
}

TEST(Generated, the_truth_is_worth_finding) {
  for (std::int64_t const hotness : {1, 4}) {
    GeneratedData const data({.seed = 2, .hotness = hotness});
    auto const block = data.block(0, 10'000);
    std::vector<float> logits;
    for (std::int64_t row = 0; row < block.rows; ++row) {
      logits.push_back(static_cast<float>(data.true_logit(row)));
    }
    EXPECT_GT(auc_of(logits, block.labels), 0.83) << hotness;
    EXPECT_LT(auc_of(logits, block.labels), 0.92) << "labels are noisy";
  }
}

TEST(Generated, even_a_linear_model_finds_much_of_it) {
  // Fits a logistic regression on the keys and numbers by stochastic gradient descent.
  GeneratedData const data({.seed = 5, .largest_cardinality = 10'000});
  constexpr std::size_t fields = 26;
  constexpr std::size_t numbers = 13;
  std::unordered_map<std::int64_t, double> weight_of_key;
  std::vector<double> weights(numbers);
  auto const logit = [&](RowBlock const& block, std::size_t row) {
    double sum = 0;
    for (std::size_t i = 0; i < fields; ++i) {
      sum += weight_of_key[block.keys[row * fields + i]];
    }
    for (std::size_t i = 0; i < numbers; ++i) {
      sum += weights[i] * static_cast<double>(block.continuous[row * numbers + i]);
    }
    return sum;
  };
  constexpr std::int64_t training_rows = 60'000;
  auto const training = data.block(0, training_rows);
  for (std::size_t row = 0; row < training_rows; ++row) {
    double const error =
        static_cast<double>(training.labels[row]) - 1.0 / (1.0 + std::exp(-logit(training, row)));
    for (std::size_t i = 0; i < fields; ++i) {
      weight_of_key[training.keys[row * fields + i]] += 0.05 * error;
    }
    for (std::size_t i = 0; i < numbers; ++i) {
      weights[i] += 0.01 * error * static_cast<double>(training.continuous[row * numbers + i]);
    }
  }
  auto const held_out = data.block(training_rows, 10'000);
  std::vector<float> scores;
  for (std::size_t row = 0; row < 10'000; ++row) {
    scores.push_back(static_cast<float>(logit(held_out, row)));
  }
  EXPECT_GT(auc_of(scores, held_out.labels), 0.75);
}

TEST(Generated, refuses_impossible_options) {
  EXPECT_THROW(GeneratedData({.rows = -1}), std::invalid_argument);
  EXPECT_THROW(GeneratedData({.hotness = 0}), std::invalid_argument);
  EXPECT_THROW(GeneratedData({.largest_cardinality = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::datasets
