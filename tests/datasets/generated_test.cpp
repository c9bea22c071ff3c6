// SPDX-License-Identifier: Apache-2.0
#include "datasets/generated.hpp"

#include "datasets/click_columns.hpp"
#include "datasets/stored_rows.hpp"

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
  auto const columns = click_columns(data.schema());
  EXPECT_EQ(columns.categorical.size(), 26U);
  EXPECT_EQ(columns.continuous, 13);
  EXPECT_EQ(std::ranges::max(data.cardinalities()), 1000);
  auto const chunk = data.chunk(0, 5);
  EXPECT_EQ(chunk.rows(), 5);
  EXPECT_NO_THROW(chunk.check());
}

TEST(Generated, a_row_depends_on_seed_and_number_alone) {
  GeneratedData const data({.seed = 3, .hotness = 2});
  auto const all = data.chunk(0, 100);
  auto const one = data.chunk(77, 1);
  for (auto const& field : click_columns(data.schema()).categorical) {
    EXPECT_TRUE(std::equal(
        one.ints(field).begin(), one.ints(field).end(), all.ints(field).begin() + 77 * 2));
  }
  EXPECT_TRUE(std::equal(one.floats(kContinuous).begin(),
                         one.floats(kContinuous).end(),
                         all.floats(kContinuous).begin() + 77 * 13));
  EXPECT_EQ(one.floats("Label")[0], all.floats("Label")[77]);
  auto const other = GeneratedData({.seed = 4, .hotness = 2}).chunk(77, 1);
  EXPECT_NE(other.ints("C1"), one.ints("C1"));
}

TEST(Generated, the_reader_gives_the_same_rows_whatever_the_threads) {
  GeneratedOptions const options{.rows = 10'000, .seed = 9};
  GeneratedReader reader(options);
  auto const loaded = load_rows(reader, 3);
  ASSERT_EQ(loaded.rows(), 10'000);
  auto const expected = GeneratedData(options).chunk(9'999, 1);
  auto const& last = loaded.chunks().back();
  EXPECT_EQ(last.ints("C26").back(), expected.ints("C26")[0]);
  EXPECT_EQ(last.floats(kContinuous).back(), expected.floats(kContinuous)[12]);
}

TEST(Generated, the_reader_goes_on_from_a_position) {
  GeneratedReader reader({.rows = 10'000});
  data::Chunk chunk(reader.schema());
  ASSERT_TRUE(reader.next(chunk));
  auto const position = reader.position();
  ASSERT_TRUE(reader.next(chunk));
  auto const key = chunk.ints("C3")[0];
  reader.seek({});
  EXPECT_EQ(load_rows(reader, 1).rows(), 10'000);
  EXPECT_FALSE(reader.next(chunk));
  reader.seek(position);
  ASSERT_TRUE(reader.next(chunk));
  EXPECT_EQ(chunk.ints("C3")[0], key);
}

TEST(Generated, hotness_is_keys_a_field) {
  auto const chunk = GeneratedData({.hotness = 4}).chunk(0, 10);
  for (auto const& field : click_columns(chunk.schema()).categorical) {
    EXPECT_EQ(chunk.ints(field).size(), 40U);
  }
}

TEST(Generated, tasks_have_labels_of_their_own_and_share_the_row) {
  constexpr std::int64_t rows = 20'000;
  GeneratedData const one({.seed = 5, .largest_cardinality = 1000});
  GeneratedData const three({.seed = 5, .largest_cardinality = 1000, .tasks = 3});
  auto const columns = click_columns(three.schema());
  EXPECT_EQ(columns.labels, (std::vector<std::string>{"Label", "Label2", "Label3"}));
  auto const single = one.chunk(0, rows);
  auto const chunk = three.chunk(0, rows);
  for (auto const& field : columns.categorical) {
    EXPECT_EQ(chunk.ints(field), single.ints(field));
  }
  EXPECT_EQ(chunk.floats(kContinuous), single.floats(kContinuous));
  ASSERT_EQ(chunk.rows(), rows);
  // The true logits of each task also predict the labels of the other tasks, but less well.
  for (int of = 0; of < 3; ++of) {
    for (int by = 0; by < 3; ++by) {
      std::vector<float> scores;
      std::vector<float> labels;
      for (std::int64_t row = 0; row < rows; ++row) {
        scores.push_back(static_cast<float>(three.true_logit(row, by)));
        auto const i = static_cast<std::size_t>(row);
        labels.push_back(chunk.floats(columns.labels[static_cast<std::size_t>(of)])[i]);
        EXPECT_TRUE(of != 0 || labels.back() == single.floats("Label")[i]);
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
  auto const chunk = data.chunk(0, rows);
  std::unordered_map<std::int64_t, int> count;
  for (auto const key : chunk.ints("C1")) {  // a field of 1,460 values
    ++count[key];
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
    auto const chunk = data.chunk(0, 10'000);
    std::vector<float> const labels(chunk.floats("Label").begin(), chunk.floats("Label").end());
    std::vector<float> logits;
    for (std::int64_t row = 0; row < chunk.rows(); ++row) {
      logits.push_back(static_cast<float>(data.true_logit(row)));
    }
    EXPECT_GT(auc_of(logits, labels), 0.83) << hotness;
    EXPECT_LT(auc_of(logits, labels), 0.92) << "labels are noisy";
  }
}

TEST(Generated, even_a_linear_model_finds_much_of_it) {
  // Fits a logistic regression on the keys and numbers by stochastic gradient descent.
  GeneratedData const data({.seed = 5, .largest_cardinality = 10'000});
  constexpr std::size_t fields = 26;
  constexpr std::size_t numbers = 13;
  std::unordered_map<std::int64_t, double> weight_of_key;
  std::vector<double> weights(numbers);
  auto const logit = [&](data::Chunk const& chunk, std::size_t row) {
    double sum = 0;
    for (std::size_t i = 0; i < fields; ++i) {
      sum += weight_of_key[chunk.ints(i)[row]];
    }
    for (std::size_t i = 0; i < numbers; ++i) {
      sum += weights[i] * static_cast<double>(chunk.floats(kContinuous)[row * numbers + i]);
    }
    return sum;
  };
  constexpr std::int64_t training_rows = 60'000;
  auto const training = data.chunk(0, training_rows);
  for (std::size_t row = 0; row < training_rows; ++row) {
    double const error = static_cast<double>(training.floats("Label")[row]) -
                         1.0 / (1.0 + std::exp(-logit(training, row)));
    for (std::size_t i = 0; i < fields; ++i) {
      weight_of_key[training.ints(i)[row]] += 0.05 * error;
    }
    for (std::size_t i = 0; i < numbers; ++i) {
      weights[i] +=
          0.01 * error * static_cast<double>(training.floats(kContinuous)[row * numbers + i]);
    }
  }
  auto const held_out = data.chunk(training_rows, 10'000);
  auto const& held_out_labels = held_out.floats("Label");
  std::vector<float> scores;
  for (std::size_t row = 0; row < 10'000; ++row) {
    scores.push_back(static_cast<float>(logit(held_out, row)));
  }
  EXPECT_GT(auc_of(scores, {held_out_labels.begin(), held_out_labels.end()}), 0.75);
}

TEST(Generated, refuses_impossible_options) {
  EXPECT_THROW(GeneratedData({.rows = -1}), std::invalid_argument);
  EXPECT_THROW(GeneratedData({.hotness = 0}), std::invalid_argument);
  EXPECT_THROW(GeneratedData({.largest_cardinality = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::datasets
