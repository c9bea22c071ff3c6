// SPDX-License-Identifier: Apache-2.0
// Tests stochastic rounding: the function on all numbers of 16 bits and between them, and the
// updates of tables, whose rows have the bits of a float32 table, rounded by the random words of
// their places.
#include "optimizer/stochastic_rounding.hpp"

#include "kernels/kernel_fixture.hpp"
#include "kernels/optimizer/optimizer_reference.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

template <class T>
constexpr float kLargest = std::is_same_v<T, float16> ? 65504.0F : 0x1.FEp127F;
/// The smallest positive number.
template <class T>
constexpr float kSmallest = std::is_same_v<T, float16> ? 0x1p-24F : 0x1p-133F;

template <class T>
class StochasticRoundingTest : public ::testing::Test {
 protected:
  Random random;

  /// Returns the neighbours of a positive number below the largest: that towards zero and the next.
  static std::pair<double, double> neighbours(float value) {
    auto bits = from_float<T>(value).bits;
    if (to_float(T{bits}) > value) {
      --bits;
    }
    return {to_float(T{bits}), to_float(T{static_cast<std::uint16_t>(bits + 1)})};
  }
  /// Returns a number of any magnitude from far below the smallest to the largest.
  float drawn() {
    int exponent = 0;
    std::frexp(kSmallest<T>, &exponent);
    auto const chosen = static_cast<int>(this->random.integer(exponent - 10, 200));
    float const value = std::ldexp(this->random.real(0.5F, 1.0F), chosen);
    return value < kLargest<T> ? value : this->random.real(1.0F, 2.0F);
  }
};
using HalfTypes = ::testing::Types<float16, bfloat16>;
struct HalfTypeName {
  template <class T>
  static std::string GetName(int) {
    return std::string(name_of(dtype_of<T>));
  }
};
TYPED_TEST_SUITE(StochasticRoundingTest, HalfTypes, HalfTypeName);

TYPED_TEST(StochasticRoundingTest, numbers_that_the_type_has_stay) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    TypeParam const number{static_cast<std::uint16_t>(bits)};
    for (std::uint32_t const random : {0U, 1U, 0x80000000U, ~0U}) {
      auto const found = stochastically_rounded<TypeParam>(to_float(number), random);
      if (std::isnan(to_float(number))) {
        ASSERT_TRUE(std::isnan(to_float(found))) << bits;
      } else {
        ASSERT_EQ(found.bits, number.bits);
      }
    }
  }
}

TYPED_TEST(StochasticRoundingTest, rounds_to_a_neighbour_as_the_random_number_says) {
  for (int i = 0; i < 200'000; ++i) {
    float const value = this->drawn();
    auto const [lower, upper] = this->neighbours(value);
    double const fraction = (value - lower) / (upper - lower);
    auto const threshold = static_cast<std::uint64_t>(std::floor(fraction * 0x1p32));
    auto const random = static_cast<std::uint32_t>(this->random.integer(0, 0xFFFFFFFF));
    for (std::uint32_t const number : {random, 0U, ~0U}) {
      double const expected = number < threshold ? upper : lower;
      ASSERT_EQ(to_float(stochastically_rounded<TypeParam>(value, number)), expected)
          << value << " between " << lower << " and " << upper << ", random " << number;
      ASSERT_EQ(to_float(stochastically_rounded<TypeParam>(-value, number)), -expected);
    }
    for (auto const number : {threshold - 1, threshold}) {
      if (number <= 0xFFFFFFFF) {
        ASSERT_EQ(
            to_float(stochastically_rounded<TypeParam>(value, static_cast<std::uint32_t>(number))),
            number < threshold ? upper : lower);
      }
    }
  }
}

// 4,096 random numbers at equal distances have the mean of all 2^32 within one part in 4,096.
TYPED_TEST(StochasticRoundingTest, the_mean_is_the_number) {
  constexpr int kCount = 4096;
  for (int i = 0; i < 300; ++i) {
    float const value = this->drawn();
    auto const [lower, upper] = this->neighbours(value);
    double sum = 0.0;
    for (int k = 0; k < kCount; ++k) {
      auto const random = static_cast<std::uint32_t>(k) * (0xFFFFFFFFU / kCount + 1U);
      sum += to_float(stochastically_rounded<TypeParam>(value, random));
    }
    ASSERT_NEAR(sum / kCount, value, (upper - lower) / kCount) << value;
  }
}

TYPED_TEST(StochasticRoundingTest, beyond_the_largest_number_rounds_to_nearest) {
  float const largest = kLargest<TypeParam>;
  auto const lower = from_float<TypeParam>(largest);
  float const half =
      largest + (largest - to_float(TypeParam{static_cast<std::uint16_t>(lower.bits - 1)})) / 2.0F;
  for (std::uint32_t const random : {0U, 0x12345678U, ~0U}) {
    auto const rounded = [&](float value) {
      return to_float(stochastically_rounded<TypeParam>(value, random));
    };
    EXPECT_EQ(rounded(std::nextafter(largest, std::numeric_limits<float>::infinity())), largest);
    EXPECT_EQ(rounded(std::nextafter(half, 0.0F)), largest);
    EXPECT_EQ(rounded(half), std::numeric_limits<float>::infinity())
        << "from_float() rounds the tie to even";
    EXPECT_EQ(rounded(-std::nextafter(half, 0.0F)), -largest);
    EXPECT_EQ(rounded(-half), -std::numeric_limits<float>::infinity());
    EXPECT_EQ(rounded(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
    EXPECT_EQ(rounded(std::numeric_limits<float>::infinity()),
              std::numeric_limits<float>::infinity());
    EXPECT_EQ(rounded(-std::numeric_limits<float>::infinity()),
              -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  }
}

TEST(RoundingWords, differ_by_key_step_row_and_block) {
  auto const words =
      [](std::uint64_t key, std::int64_t step, std::int64_t row, std::int64_t block) {
        auto const found = rounding_words(key, step, row, block);
        return std::vector<std::uint32_t>(found.at, found.at + 4);
      };
  auto const expected = words(1, 2, 3, 4);
  EXPECT_EQ(words(1, 2, 3, 4), expected);
  EXPECT_NE(words(2, 2, 3, 4), expected);
  EXPECT_NE(words(1, 3, 3, 4), expected);
  EXPECT_NE(words(1, 2, 4, 4), expected);
  EXPECT_NE(words(1, 2, 3, 5), expected);
  EXPECT_NE(rounding_key(1, 2), rounding_key(2, 2));
  EXPECT_NE(rounding_key(1, 2), rounding_key(1, 3));
  EXPECT_NE(rounding_key(1, 2), philox_key(1, 2)) << "the key of a dropout";
}

template <class Stream>
class StochasticRowsTest : public KernelTest<Stream> {
 protected:
  static constexpr std::int64_t kRows = 40;
  static constexpr std::int64_t kStep = 5;

  /// Updates tables of T with stochastic rounding, and a float32 copy of each alone, from the same
  /// state. Expects the bits of the copies, rounded by the words of their places.
  template <class T>
  void expect_rounded_copies(OptimizerRule const& rule, std::vector<std::int64_t> const& widths) {
    SCOPED_TRACE(fmt::format("kind {}", static_cast<int>(OptimizerKind{rule.kind})));
    auto const ids = this->upload(std::vector<std::int64_t>{3, 0, 39, 17, 8, 21, 9, 2, 33, 4});
    auto const count = this->scalar(9);  // row 4 has no gradient
    StepState state;
    state.step = kStep;
    auto const step = this->upload(std::vector{state});
    std::vector<Tables<T>> tables;
    std::vector<RowUpdate> updates;
    for (std::size_t t = 0; t < widths.size(); ++t) {
      tables.push_back(make<T>(widths[t]));
      updates.push_back(tables.back().update(rule.kind, ids, count));
      updates.back().rounding = {true, 1000 + t, std::int64_t{1} << (30 + t)};
    }
    this->replay([&](Stream stream) { update_rows(stream, rule, step.data(), updates); });
    for (std::size_t t = 0; t < widths.size(); ++t) {
      SCOPED_TRACE(fmt::format("table {} of width {}", t, widths[t]));
      auto const found = this->read(tables[t].weights);
      expect_copy(rule, tables[t], updates[t], step, ids, count, found);
    }
  }
  /// Returns the mean of the weights, and their number above `least`, after one update of one row
  /// by `gradient` with rate 1. All weights are 1 before.
  template <class T>
  std::pair<double, std::int64_t> mean_of_updated(float gradient, std::uint64_t key) {
    constexpr std::int64_t kWidth = 100'000;
    auto const weights =
        this->upload(std::vector<T>(static_cast<std::size_t>(kWidth), from_float<T>(1.0F)));
    auto const gradients =
        this->upload(std::vector<float>(static_cast<std::size_t>(kWidth), gradient));
    auto const row = this->scalar(0);
    auto const count = this->scalar(1);
    std::vector const updates{RowUpdate{.table = weights.data(),
                                        .dtype = dtype_of<T>,
                                        .width = kWidth,
                                        .row_ids = row.data(),
                                        .row_count = count.data(),
                                        .capacity = 1,
                                        .gradients = gradients.data(),
                                        .state0 = nullptr,
                                        .state1 = nullptr,
                                        .rounding = {true, key, 0}}};
    this->replay([&](Stream stream) {
      update_rows(stream, {.kind = OptimizerKind::sgd, .learning_rate = 1.0F}, nullptr, updates);
    });
    double sum = 0.0;
    std::int64_t moved = 0;
    for (auto const weight : this->read(weights)) {
      sum += to_float(weight);
      moved += to_float(weight) == 1.0F ? 0 : 1;
    }
    return {sum / kWidth, moved};
  }

 private:
  template <class T>
  struct Tables {
    std::int64_t width;
    std::vector<T> start;
    std::vector<float> states;
    Buffer<T> weights;
    Buffer<float> first;
    Buffer<float> second;
    Buffer<float> gradients;

    RowUpdate update(OptimizerKind kind,
                     Buffer<std::int64_t> const& ids,
                     Buffer<std::int64_t> const& count) const {
      return {.table = weights.data(),
              .dtype = dtype_of<T>,
              .width = width,
              .row_ids = ids.data(),
              .row_count = count.data(),
              .capacity = static_cast<std::int64_t>(ids.count()),
              .gradients = gradients.data(),
              .state0 = has_first(kind) ? first.data() : nullptr,
              .state1 = has_second(kind) ? second.data() : nullptr};
    }
  };
  template <class T>
  Tables<T> make(std::int64_t width) {
    std::vector<T> start;
    for (float const weight : this->random.reals(kRows * width)) {
      start.push_back(from_float<T>(weight));
    }
    auto const states = this->random.reals(kRows * width, 0.0F, 1.0F);
    auto const weights = this->upload(start);
    auto const first = this->upload(states);
    auto const second = this->upload(states);
    auto const gradients = this->upload(this->random.reals(10 * width));
    return {width, start, states, weights, first, second, gradients};
  }
  template <class T>
  void expect_copy(OptimizerRule const& rule,
                   Tables<T> const& table,
                   RowUpdate const& update,
                   Buffer<StepState> const& step,
                   Buffer<std::int64_t> const& ids,
                   Buffer<std::int64_t> const& count,
                   std::vector<T> const& found) {
    std::vector<float> wide;
    for (auto const weight : table.start) {
      wide.push_back(to_float(weight));
    }
    auto const weights = this->upload(wide);
    auto const first = this->upload(table.states);
    auto const second = this->upload(table.states);
    auto copy = table.update(rule.kind, ids, count);
    copy.table = weights.data();
    copy.dtype = DType::float32;
    copy.state0 = copy.state0 == nullptr ? nullptr : first.data();
    copy.state1 = copy.state1 == nullptr ? nullptr : second.data();
    copy.rounding = update.rounding;  // which a table of float32 does not use
    this->replay([&](Stream stream) { update_rows(stream, rule, step.data(), {&copy, 1}); });
    auto const moved = this->read(weights);
    std::int64_t beside_nearest = 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t c = 0; c < table.width; ++c) {
        auto const at = static_cast<std::size_t>(row * table.width + c);
        auto const words =
            rounding_words(update.rounding.key, kStep, update.rounding.first_row + row, c / 4);
        auto const expected = stochastically_rounded<T>(moved[at], words.at[c % 4]);
        ASSERT_EQ(found[at].bits, expected.bits) << "row " << row << ", column " << c;
        beside_nearest += found[at].bits != from_float<T>(moved[at]).bits ? 1 : 0;
      }
    }
    if (table.width > 30) {
      EXPECT_GT(beside_nearest, 0) << "of 9 rows, a quarter of the elements, or what is not exact";
    }
    EXPECT_EQ(this->read(table.first), this->read(first)) << "the state is not rounded";
    EXPECT_EQ(this->read(table.second), this->read(second));
  }
};
TYPED_TEST_SUITE(StochasticRowsTest, StreamKinds, StreamKindName);

TYPED_TEST(StochasticRowsTest, rows_are_those_of_float32_rounded_by_the_words_of_their_places) {
  for (auto const kind : kAllOptimizerKinds) {
    for (std::int64_t const width : {1, 2, 3, 4, 5, 16, 33, 127, 128, 130, 200, 257, 512}) {
      this->template expect_rounded_copies<float16>({.kind = kind, .learning_rate = 0.1F}, {width});
      this->template expect_rounded_copies<bfloat16>({.kind = kind, .learning_rate = 0.1F},
                                                     {width});
    }
    this->template expect_rounded_copies<bfloat16>(
        {.kind = kind, .learning_rate = 0.1F, .weight_decay = 0.01F, .clip_value = 0.5F},
        {16, 128, 7, 64, 300});
  }
}

TYPED_TEST(StochasticRowsTest, more_tables_than_one_launch_takes_are_rounded) {
  std::vector<std::int64_t> widths;
  for (std::int64_t t = 0; t < 30; ++t) {
    widths.push_back(1 + t);
  }
  widths.insert(widths.end(), widths.begin(), widths.end());
  widths.resize(33);
  this->template expect_rounded_copies<float16>(
      {.kind = OptimizerKind::adagrad, .learning_rate = 0.1F}, widths);
}

// The mean of n = 100,000 weights, each of which moves by a whole step with probability p, has a
// deviation of sqrt(p (1 - p) / n) steps. A mean beyond six of them has a probability of 2e-9.
TYPED_TEST(StochasticRowsTest, an_update_below_half_a_step_moves_weights_by_its_mean) {
  auto const expect_mean = [&]<class T>(T, double step) {
    for (double const part : {0.01, 0.25, 0.4}) {
      for (std::uint64_t const seed : {1U, 2U, 3U}) {
        auto const [mean, moved] = this->template mean_of_updated<T>(
            static_cast<float>(-part * step), rounding_key(seed, 7));
        EXPECT_NEAR(mean, 1.0 + part * step, 6.0 * step * std::sqrt(part * (1.0 - part) / 1e5));
        EXPECT_GT(moved, 0);
      }
    }
  };
  expect_mean(float16{}, 0x1p-10);
  expect_mean(bfloat16{}, 0x1p-7);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
