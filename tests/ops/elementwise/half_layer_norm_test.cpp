// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"

#include <msstream/ops/layer_norm.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace msstream::testing {
namespace {

constexpr float kHalfNormEpsilon = 0.01F;

/// A layer norm and its gradients in double. The scales bound the errors of a float32 computation.
struct DoubleLayerNorm {
  Doubles output, output_scale;
  Doubles means, mean_scales;
  Doubles reciprocals, reciprocal_scales;
  Doubles input_gradient, input_gradient_scale;
  Doubles weight_gradient, weight_gradient_scale;
  Doubles bias_gradient, bias_gradient_scale;

  DoubleLayerNorm(Doubles const& input,
                  Doubles const& weight,
                  Doubles const& bias,
                  Doubles const& output_gradient)
      : weight_gradient(weight.size(), 0.0),
        weight_gradient_scale(weight.size(), 0.0),
        bias_gradient(weight.size(), 0.0),
        bias_gradient_scale(weight.size(), 0.0) {
    auto const width = weight.size();
    auto const n = static_cast<double>(width);
    for (std::size_t first = 0; first < input.size(); first += width) {
      double mean = 0;
      double variance = 0;
      double range = 0;
      for (std::size_t c = 0; c < width; ++c) {
        mean += input[first + c] / n;
        range = std::max(range, std::abs(input[first + c] - input[first]));
      }
      for (std::size_t c = 0; c < width; ++c) {
        variance += std::pow(input[first + c] - mean, 2) / n;
      }
      double const reciprocal = 1 / std::sqrt(variance + double{kHalfNormEpsilon});
      // The error of a deviation is relative to the range, and that of 1 / sqrt(…) has the same
      // factor.
      double const condition = 1 + range * reciprocal;
      means.push_back(mean);
      mean_scales.push_back(std::abs(input[first]) + range);
      reciprocals.push_back(reciprocal);
      reciprocal_scales.push_back(condition * reciprocal);
      double sum = 0;
      double weighted = 0;
      double sum_scale = 0;
      double weighted_scale = 0;
      for (std::size_t c = 0; c < width; ++c) {
        double const normal = (input[first + c] - mean) * reciprocal;
        double const error = condition * (1 + std::abs(normal));
        double const dy = output_gradient[first + c];
        output.push_back(normal * weight[c] + bias[c]);
        output_scale.push_back(error * std::abs(weight[c]) + std::abs(bias[c]));
        sum += dy * weight[c] / n;
        sum_scale += std::abs(dy * weight[c]) / n;
        weighted += dy * weight[c] * normal / n;
        weighted_scale += std::abs(dy * weight[c]) * error / n;
        weight_gradient[c] += dy * normal;
        weight_gradient_scale[c] += std::abs(dy) * error;
        bias_gradient[c] += dy;
        bias_gradient_scale[c] += std::abs(dy);
      }
      for (std::size_t c = 0; c < width; ++c) {
        double const normal = (input[first + c] - mean) * reciprocal;
        double const g = output_gradient[first + c] * weight[c];
        double const error = condition * (1 + std::abs(normal));
        input_gradient.push_back(reciprocal * (g - sum - normal * weighted));
        input_gradient_scale.push_back(condition * reciprocal *
                                       (std::abs(g) + sum_scale + 2 * error * weighted_scale));
      }
    }
  }
};

template <class R>
class HalfLayerNormTest : public HalfTest<R> {
 protected:
  template <class T>
  void expect_layer_norm(std::int64_t rows, std::int64_t width) {
    SCOPED_TRACE(fmt::format("{} x {} of {}", rows, width, name_of(dtype_of<T>)));
    auto const x = this->template operand<T>({rows, width}, -1.0F, 3.0F);
    auto const dy = this->template operand<T>({rows, width});
    auto const weight = this->template operand<float>({width});
    auto const bias = this->template operand<float>({width});
    DoubleLayerNorm const expected(x.values, weight.values, bias.values, dy.values);
    auto const result = ops::layer_norm(x.tensor, weight.tensor, bias.tensor, kHalfNormEpsilon);
    static_assert(std::is_same_v<decltype(result.output), Tensor<T, R>>);
    EXPECT_EQ(result.output.shape(), x.tensor.shape());
    expect_rounded_once(to_host(result.output), expected.output, expected.output_scale);
    expect_rounded_once(to_host(result.means), expected.means, expected.mean_scales);
    expect_rounded_once(
        to_host(result.reciprocals), expected.reciprocals, expected.reciprocal_scales);
    auto const gradients = ops::layer_norm_gradient(x.tensor, weight.tensor, result, dy.tensor);
    expect_rounded_once(
        to_host(*gradients.input), expected.input_gradient, expected.input_gradient_scale);
    expect_rounded_once(
        to_host(*gradients.weight), expected.weight_gradient, expected.weight_gradient_scale);
    expect_rounded_once(
        to_host(*gradients.bias), expected.bias_gradient, expected.bias_gradient_scale);
  }
};
TYPED_TEST_SUITE(HalfLayerNormTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfLayerNormTest, forward_and_gradients_agree_with_double) {
  for (auto const& [rows, width] : {std::array{7, 1},
                                    {5, 2},
                                    {9, 5},
                                    {3, 33},
                                    {70, 64},
                                    {4, 200},
                                    {300, 3},
                                    {2, 1024},
                                    {2, 1025},
                                    {1, 9000}}) {
    this->template expect_layer_norm<bfloat16>(rows, width);
    this->template expect_layer_norm<float16>(rows, width);
    this->template expect_layer_norm<float>(rows, width);
  }
}

TYPED_TEST(HalfLayerNormTest, statistics_are_sums_in_float32) {
  // In bfloat16, 256 + 1 is 256, so that a sum in it would not reach the mean of 1,024 ones.
  auto const x = this->put(rounded_to<bfloat16>(Floats(1024, 1.0F)), {1, 1024});
  auto const ones = this->put(Floats(1024, 1.0F));
  auto const result = ops::layer_norm(x, ones, ones);
  EXPECT_EQ(to_host(result.means), Floats{1.0F});
  EXPECT_EQ(to_doubles(to_host(result.output)), Doubles(1024, 1.0));
}

TYPED_TEST(HalfLayerNormTest, without_rows_the_gradients_of_weight_and_bias_are_zero) {
  auto const x = this->template any<float16>({0, 3});
  auto const weight = this->random_tensor({3});
  auto const result = ops::layer_norm(x, weight, weight);
  EXPECT_TRUE(to_host(result.output).empty());
  auto const gradients = ops::layer_norm_gradient(x, weight, result, x);
  EXPECT_EQ(to_host(*gradients.weight), Floats(3, 0.0F));
  EXPECT_EQ(to_host(*gradients.bias), Floats(3, 0.0F));
}

TYPED_TEST(HalfLayerNormTest, refuses_what_does_not_fit) {
  auto const x = this->template any<bfloat16>({2, 3});
  auto const two = this->any({2});
  expect_refused([&] { (void)ops::layer_norm(x, two, two); }, "layer_norm", "[2, 3]", "[2]");
}

}  // namespace
}  // namespace msstream::testing
