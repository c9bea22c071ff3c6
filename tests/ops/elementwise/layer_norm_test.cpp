// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/layer_norm.hpp>

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <limits>

namespace msstream::testing {
namespace {

template <class R>
class LayerNormTest : public OpsTest<R> {};
TYPED_TEST_SUITE(LayerNormTest, Runtimes, RuntimeNames);

TYPED_TEST(LayerNormTest, normalises_the_last_dimension) {
  Shape const shape{2, 3, 5};
  auto const values = this->random.reals(shape.count(), -2.0F, 5.0F);
  auto const weight = this->random.reals(5);
  auto const bias = this->random.reals(5);
  Doubles expected;
  Doubles means;
  Doubles reciprocals;
  for (std::size_t row = 0; row < 6; ++row) {
    double mean = 0;
    double variance = 0;
    for (std::size_t c = 0; c < 5; ++c) {
      mean += values[5 * row + c] / 5.0;
    }
    for (std::size_t c = 0; c < 5; ++c) {
      variance += std::pow(values[5 * row + c] - mean, 2) / 5;
    }
    means.push_back(mean);
    reciprocals.push_back(1 / std::sqrt(variance + 0.25));
    for (std::size_t c = 0; c < 5; ++c) {
      expected.push_back((values[5 * row + c] - mean) * reciprocals.back() * weight[c] + bias[c]);
    }
  }
  auto const result =
      ops::layer_norm(this->put(values, shape), this->put(weight), this->put(bias), 0.25F);
  EXPECT_EQ(result.output.shape(), shape);
  expect_near(to_host(result.output), expected);
  expect_near(to_host(result.means), means);
  expect_near(to_host(result.reciprocals), reciprocals);
}

/// Rows with a large mean, and their layer norm with weight 1 and bias 0 and its gradients,
/// computed in float64.
struct LargeMeans {
  Floats input;
  Doubles output;
  Doubles input_gradient;
  Doubles weight_gradient;

  LargeMeans(std::int64_t rows, std::int64_t width, float base, float step, Floats const& gradient)
      : weight_gradient(static_cast<std::size_t>(width), 0.0) {
    auto const columns = static_cast<std::size_t>(width);
    auto const n = static_cast<double>(width);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      auto const first = input.size();
      double mean = 0;
      double variance = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        input.push_back(base + step * static_cast<float>((c * 5 + row) % (columns > 16 ? 8 : 16)));
        mean += input.back() / n;
      }
      for (std::size_t c = 0; c < columns; ++c) {
        variance += std::pow(input[first + c] - mean, 2) / n;
      }
      double const reciprocal = 1 / std::sqrt(variance);
      double sum = 0;
      double weighted = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        output.push_back((input[first + c] - mean) * reciprocal);
        sum += gradient[first + c] / n;
        weighted += gradient[first + c] * output.back() / n;
        weight_gradient[c] += gradient[first + c] * output.back();
      }
      for (std::size_t c = 0; c < columns; ++c) {
        input_gradient.push_back(reciprocal *
                                 (gradient[first + c] - sum - output[first + c] * weighted));
      }
    }
  }
};

TYPED_TEST(LayerNormTest, a_large_mean_takes_no_digits_from_the_deviations) {
  struct Case {
    std::int64_t width;
    float base;
    float step;
  };
  for (auto const& [width, base, step] : {Case{1024, 1e6F, 1.0F},
                                          Case{16, 1e4F, 1e-3F},
                                          Case{5, -1e6F, 0.0625F},
                                          Case{3000, 1e6F, 1.0F},
                                          Case{20'000, 1e6F, 1.0F},
                                          Case{100, 1e7F, 1.0F}}) {
    SCOPED_TRACE(fmt::format("{} about {}", width, base));
    constexpr std::int64_t kRows = 3;
    auto const gradient = this->random.reals(kRows * width);
    LargeMeans const expected(kRows, width, base, step, gradient);
    auto const ones = this->put(Floats(static_cast<std::size_t>(width), 1.0F));
    auto const zeros = this->put(Floats(static_cast<std::size_t>(width), 0.0F));
    auto const x = this->put(expected.input, {kRows, width});
    auto const result = ops::layer_norm(x, ones, zeros, 0.0F);
    expect_near(to_host(result.output), expected.output, 5e-6);
    auto const gradients =
        ops::layer_norm_gradient(x, ones, result, this->put(gradient, {kRows, width}));
    // Divides the gradients by 1 / the standard deviation, which is their magnitude, before the
    // comparison.
    float const scale = to_host(result.reciprocals)[0];
    auto scaled = to_host(*gradients.input);
    auto scaled_expected = expected.input_gradient;
    for (std::size_t i = 0; i < scaled.size(); ++i) {
      scaled[i] /= scale;
      scaled_expected[i] /= scale;
    }
    expect_near(scaled, scaled_expected, 1e-5);
    expect_near(to_host(*gradients.weight), expected.weight_gradient, 1e-5);
  }
}

TYPED_TEST(LayerNormTest, a_first_element_far_from_the_others_costs_few_digits) {
  Floats input(64, 1.0F);
  input[0] = 1e8F;
  double const n = 64;
  auto const result = ops::layer_norm(
      this->put(input, {1, 64}), this->put(Floats(64, 1.0F)), this->put(Floats(64, 0.0F)), 0.0F);
  Doubles expected(64, -1 / std::sqrt(n - 1));
  expected[0] = std::sqrt(n - 1);
  expect_near(to_host(result.output), expected, 5e-6);
}

TYPED_TEST(LayerNormTest, opposite_extremes_are_right_until_their_squares_overflow) {
  for (std::int64_t const width : {2, 64, 1024, 4096}) {
    // Fills half of the row with `extreme` and half with its negative, so that the mean is 0.
    auto const output_of = [&](float extreme) {
      Floats input(static_cast<std::size_t>(width), extreme);
      std::fill(input.begin() + width / 2, input.end(), -extreme);
      return to_host(ops::layer_norm(this->put(input, {1, width}),
                                     this->put(Floats(static_cast<std::size_t>(width), 1.0F)),
                                     this->put(Floats(static_cast<std::size_t>(width), 0.5F)))
                         .output);
    };
    // docs/limits.md promises right results while width · (largest − smallest)² is below 3.4 ·
    // 10³⁸.
    auto const right = 0.99 * std::sqrt(3.4e38 / static_cast<double>(width)) / 2;
    Doubles expected(static_cast<std::size_t>(width), 1.5);
    std::fill(expected.begin() + width / 2, expected.end(), -0.5);
    expect_near(output_of(static_cast<float>(right)), expected, 5e-6);
    for (float const element : output_of(3e38F)) {
      EXPECT_TRUE(std::isnan(element)) << element;
    }
    for (float const element : output_of(1e20F)) {
      EXPECT_TRUE(std::isnan(element) || element == 0.5F) << element;
    }
  }
}

TYPED_TEST(LayerNormTest, without_rests_of_the_means_gradients_take_the_means_as_exact) {
  // The elements of a row are apart: in rows of nearly equal ones, the rests count.
  auto values = this->random.reals(12, -0.1F, 0.1F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] += static_cast<float>(i % 3);
  }
  auto const x = this->put(values, {4, 3});
  auto const weight = this->random_tensor({3});
  auto const result = ops::layer_norm(x, weight, weight);
  ops::LayerNormResult<TypeParam> const shortened{result.output, result.means, result.reciprocals};
  expect_near(to_host(*ops::layer_norm_gradient(x, weight, shortened, x).input),
              to_doubles(to_host(*ops::layer_norm_gradient(x, weight, result, x).input)),
              1e-5);
}

TYPED_TEST(LayerNormTest, computes_the_gradients_that_are_wanted) {
  auto const x = this->random_tensor({4, 3});
  auto const weight = this->random_tensor({3});
  auto const result = ops::layer_norm(x, weight, weight);
  for (bool const input : {false, true}) {
    for (bool const parameters : {false, true}) {
      auto const gradients = ops::layer_norm_gradient(
          x, weight, result, x, {.input = input, .parameters = parameters});
      EXPECT_EQ(gradients.input.has_value(), input);
      EXPECT_EQ(gradients.weight.has_value(), parameters);
      EXPECT_EQ(gradients.bias.has_value(), parameters);
    }
  }
}

TYPED_TEST(LayerNormTest, without_rows_the_gradients_of_weight_and_bias_are_zero) {
  auto const x = this->any({0, 3});
  auto const weight = this->random_tensor({3});
  auto const result = ops::layer_norm(x, weight, weight);
  EXPECT_TRUE(to_host(result.output).empty());
  auto const gradients = ops::layer_norm_gradient(x, weight, result, x);
  EXPECT_EQ(to_host(*gradients.weight), Floats(3, 0.0F));
  EXPECT_EQ(to_host(*gradients.bias), Floats(3, 0.0F));
}

TYPED_TEST(LayerNormTest, refuses_what_does_not_fit) {
  auto const x = this->any({2, 3});
  auto const three = this->any({3});
  auto const two = this->any({2});
  auto const infinity = std::numeric_limits<float>::infinity();
  expect_refused([&] { (void)ops::layer_norm(x, two, three); }, "layer_norm", "[2, 3]", "[2]");
  expect_refused([&] { (void)ops::layer_norm(x, three, two); }, "layer_norm", "[2, 3]", "[2]");
  expect_refused([&] { (void)ops::layer_norm(this->any({}), three, three); }, "layer_norm", "[]");
  expect_refused(
      [&] {
        (void)ops::layer_norm(this->any({2, 0}), this->any({0}), this->any({0}));
      },
      "layer_norm",
      "[2, 0]");
  expect_refused([&] { (void)ops::layer_norm(x, three, three, -1.0F); }, "layer_norm", "-1");
  expect_refused([&] { (void)ops::layer_norm(x, three, three, infinity); }, "layer_norm", "inf");
  auto const result = ops::layer_norm(x, three, three);
  expect_refused(
      [&] {
        (void)ops::layer_norm_gradient(x, three, result, this->any({3, 2}));
      },
      "layer_norm_gradient",
      "[2, 3]",
      "[3, 2]");
}

}  // namespace
}  // namespace msstream::testing
