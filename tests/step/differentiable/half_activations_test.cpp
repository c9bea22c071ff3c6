// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"
#include "step/gradient_fixture.hpp"

#include <msstream/ops/activation.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class HalfActivationsTest : public GradientTest<R> {
 protected:
  /// Compares a function and its gradient in type T with double. `slope(x, y)` is the derivative
  /// at x, of which the function gives y.
  template <class T>
  void expect_function(auto const& op, auto const& function, auto const& slope) {
    constexpr std::int64_t kCount = 1003;
    // float32 approximations of erf, exp and tanh are this exact, relative to 1.
    constexpr double kError = 0x1p-20;
    auto const values = rounded_to<T>(this->random.reals(kCount, -6.0F, 6.0F));
    auto const x = this->put(values, {kCount});
    GradientTape tape(this->device());
    auto const y = op(tape, x);
    static_assert(std::is_same_v<decltype(y), Tensor<T, R> const>);
    auto const wide = ops::cast<float>(tape, y);
    tape.backward(ops::sum(tape, ops::multiply(tape, wide, wide)));

    auto const given = to_doubles(to_host(y));
    auto const in = to_doubles(values);
    Doubles outputs;
    Doubles output_bounds;
    Doubles gradients;
    Doubles gradient_bounds;
    for (std::size_t i = 0; i < in.size(); ++i) {
      double const scale = std::max(1.0, std::abs(in[i]));
      outputs.push_back(function(in[i]));
      output_bounds.push_back(rounding_bound<T>(outputs[i], kError * scale));
      // The gradient of y² is 2 y, which T represents.
      gradients.push_back(2 * given[i] * slope(in[i], given[i]));
      gradient_bounds.push_back(
          rounding_bound<T>(gradients[i], kError * scale * std::abs(2 * given[i])));
    }
    expect_bounded(to_host(y), outputs, output_bounds);
    expect_bounded(to_host(tape.gradient(x)), gradients, gradient_bounds);
  }
  void expect_function_of_both(auto const& op, auto const& function, auto const& slope) {
    this->template expect_function<float16>(op, function, slope);
    this->template expect_function<bfloat16>(op, function, slope);
  }
};
TYPED_TEST_SUITE(HalfActivationsTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfActivationsTest, relu) {
  this->expect_function_of_both([](auto& tape, auto const& x) { return ops::relu(tape, x); },
                                [](double x) { return std::max(x, 0.0); },
                                [](double, double y) { return y > 0 ? 1.0 : 0.0; });
}

TYPED_TEST(HalfActivationsTest, gelu) {
  auto const below = [](double x) { return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)); };
  this->expect_function_of_both(
      [](auto& tape, auto const& x) { return ops::gelu(tape, x); },
      [=](double x) { return x * below(x); },
      [=](double x, double) {
        return below(x) + x * std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
      });
}

TYPED_TEST(HalfActivationsTest, gelu_tanh) {
  double const factor = std::sqrt(2 / std::numbers::pi);
  auto const bent = [=](double x) { return std::tanh(factor * (x + 0.044715 * x * x * x)); };
  this->expect_function_of_both([](auto& tape, auto const& x) { return ops::gelu_tanh(tape, x); },
                                [=](double x) { return 0.5 * x * (1 + bent(x)); },
                                [=](double x, double) {
                                  double const t = bent(x);
                                  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * factor *
                                                             (1 + 3 * 0.044715 * x * x);
                                });
}

TYPED_TEST(HalfActivationsTest, silu) {
  auto const sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  this->expect_function_of_both(
      [](auto& tape, auto const& x) { return ops::silu(tape, x); },
      [=](double x) { return x * sigmoid(x); },
      [=](double x, double) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); });
}

TYPED_TEST(HalfActivationsTest, tanh) {
  this->expect_function_of_both([](auto& tape, auto const& x) { return ops::tanh(tape, x); },
                                [](double x) { return std::tanh(x); },
                                [](double, double y) { return 1 - y * y; });
}

TYPED_TEST(HalfActivationsTest, sigmoid) {
  this->expect_function_of_both([](auto& tape, auto const& x) { return ops::sigmoid(tape, x); },
                                [](double x) { return 1 / (1 + std::exp(-x)); },
                                [](double, double y) { return y * (1 - y); });
}

TYPED_TEST(HalfActivationsTest, clamp) {
  this->expect_function_of_both(
      [](auto& tape, auto const& x) { return ops::clamp(tape, x, -1.5F, 2.25F); },
      [](double x) { return std::clamp(x, -1.5, 2.25); },
      [](double x, double) { return x < -1.5 || x > 2.25 ? 0.0 : 1.0; });
  auto const x = this->put(std::vector{bfloat16{}}, {1});
  GradientTape tape(this->device());
  EXPECT_THROW(static_cast<void>(ops::clamp(tape, x, 2.0F, 1.0F)), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::testing
