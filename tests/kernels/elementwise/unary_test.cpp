// SPDX-License-Identifier: Apache-2.0
#include "elementwise/unary.hpp"

#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace msstream::ops::kernels::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kEpsilon = 0.25F;
constexpr float kLimit = 1.5F;
constexpr double kPi = 3.14159265358979323846;
constexpr std::int64_t kUnaryCounts[] = {0, 1, 3, 4, 5, 1023, 1024, 4099};

double normal_distribution(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double gate_by_tangent(double x) {
  return 0.5 * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
}

/// A reference for a unary function: its value and derivative in double, and the interval in which
/// to compare them.
struct UnaryReference {
  UnaryFunction function;
  double (*value)(double x);
  double (*derivative)(double x);
  float low;
  float high;
};
constexpr UnaryReference kUnaryReferences[] = {
    {UnaryFunction::square,
     [](double x) { return x * x; },
     [](double x) { return 2 * x; },
     -3.0F,
     3.0F},
    {UnaryFunction::sqrt,
     [](double x) { return std::sqrt(x); },
     [](double x) { return 0.5 / std::sqrt(x); },
     0.1F,
     9.0F},
    {UnaryFunction::abs,
     [](double x) { return std::abs(x); },
     [](double x) { return x < 0 ? -1.0 : 1.0; },
     -3.0F,
     3.0F},
    {UnaryFunction::sqrt_abs,
     [](double x) { return std::sqrt(std::abs(x) + double{kEpsilon}); },
     [](double x) { return (x < 0 ? -0.5 : 0.5) / std::sqrt(std::abs(x) + double{kEpsilon}); },
     -3.0F,
     3.0F},
    {UnaryFunction::relu,
     [](double x) { return x < 0 ? 0.0 : x; },
     [](double x) { return x < 0 ? 0.0 : 1.0; },
     -3.0F,
     3.0F},
    {UnaryFunction::exp,
     [](double x) { return std::exp(x); },
     [](double x) { return std::exp(x); },
     -3.0F,
     3.0F},
    {UnaryFunction::log,
     [](double x) { return std::log(x); },
     [](double x) { return 1 / x; },
     0.1F,
     9.0F},
    {UnaryFunction::tanh,
     [](double x) { return std::tanh(x); },
     [](double x) { return 1 - std::tanh(x) * std::tanh(x); },
     -3.0F,
     3.0F},
    {UnaryFunction::gelu,
     [](double x) { return x * normal_distribution(x); },
     [](double x) {
       return normal_distribution(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi);
     },
     -6.0F,
     6.0F},
    {UnaryFunction::gelu_tanh,
     [](double x) { return x * gate_by_tangent(x); },
     [](double x) {
       double const gate = gate_by_tangent(x);
       double const slope = 2 * std::sqrt(2 / kPi) * (1 + 3 * 0.044715 * x * x);
       return gate + x * gate * (1 - gate) * slope;
     },
     -6.0F,
     6.0F},
    {UnaryFunction::silu,
     [](double x) { return x / (1 + std::exp(-x)); },
     [](double x) {
       double const gate = 1 / (1 + std::exp(-x));
       return gate * (1 + x * (1 - gate));
     },
     -6.0F,
     6.0F},
    {UnaryFunction::sigmoid,
     [](double x) { return 1 / (1 + std::exp(-x)); },
     [](double x) {
       double const y = 1 / (1 + std::exp(-x));
       return y * (1 - y);
     },
     -6.0F,
     6.0F},
    {UnaryFunction::clamp,
     [](double x) { return std::clamp(x, double{kEpsilon}, double{kLimit}); },
     [](double x) { return x < double{kEpsilon} || x > double{kLimit} ? 0.0 : 1.0; },
     -3.0F,
     3.0F},
    {UnaryFunction::add_scalar,
     [](double x) { return x + double{kEpsilon}; },
     [](double) { return 1.0; },
     -3.0F,
     3.0F},
};

template <class Stream>
class UnaryTest : public KernelTest<Stream> {
 protected:
  std::vector<float> outputs(UnaryFunction function, std::vector<float> const& values) {
    auto const input = this->upload(values);
    auto const output = this->floats(static_cast<std::int64_t>(values.size()));
    unary(this->stream(),
          {function,
           kEpsilon,
           input.data(),
           output.data(),
           static_cast<std::int64_t>(values.size()),
           kLimit});
    return this->read(output);
  }
  /// Returns the gradients of a unary function for an output gradient of 1.
  std::vector<float> derivatives(UnaryFunction function,
                                 std::vector<float> const& saved,
                                 float epsilon = kEpsilon) {
    auto const count = static_cast<std::int64_t>(saved.size());
    auto const input = this->upload(saved);
    auto const ones = this->upload(std::vector<float>(saved.size(), 1.0F));
    auto const gradient = this->floats(count);
    unary_gradient(this->stream(),
                   {function, epsilon, input.data(), ones.data(), gradient.data(), count, kLimit});
    return this->read(gradient);
  }
};
TYPED_TEST_SUITE(UnaryTest, StreamKinds, StreamKindName);

TYPED_TEST(UnaryTest, values_agree_with_double_also_unaligned_and_in_place) {
  for (auto const& reference : kUnaryReferences) {
    for (auto const count : kUnaryCounts) {
      SCOPED_TRACE(
          fmt::format("function {}, count {}", static_cast<int>(reference.function), count));
      auto const values = this->random.reals(count, reference.low, reference.high);
      std::vector<double> expected;
      for (auto const x : values) {
        expected.push_back(reference.value(x));
      }
      auto const input = this->upload(values);
      auto const shifted = this->floats(count + 1);
      unary(this->stream(),
            {reference.function, kEpsilon, input.data(), shifted.data() + 1, count, kLimit});
      auto behind_first = this->read(shifted);
      EXPECT_TRUE(std::isnan(behind_first.front()));
      behind_first.erase(behind_first.begin());
      expect_within(behind_first, expected);
      unary(this->stream(),
            {reference.function, kEpsilon, input.data(), input.data(), count, kLimit});
      expect_within(this->read(input), expected);
    }
  }
}

TYPED_TEST(UnaryTest, gradients_agree_with_double) {
  for (auto const& reference : kUnaryReferences) {
    for (auto const count : kUnaryCounts) {
      SCOPED_TRACE(
          fmt::format("function {}, count {}", static_cast<int>(reference.function), count));
      auto values = this->random.reals(count, reference.low, reference.high);
      // The function has no derivative at 0.
      std::replace(values.begin(), values.end(), 0.0F, 1.0F);
      auto const gradients = this->random.reals(count);
      std::vector<float> saved = values;
      std::vector<double> expected;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (gradient_reads_output(reference.function)) {
          saved[i] = static_cast<float>(reference.value(values[i]));
        }
        expected.push_back(gradients[i] * reference.derivative(values[i]));
      }
      auto const saved_in = this->upload(saved);
      auto const gradients_in = this->upload(gradients);
      auto const output = this->floats(count);
      unary_gradient(this->stream(),
                     {reference.function,
                      kEpsilon,
                      saved_in.data(),
                      gradients_in.data(),
                      output.data(),
                      count,
                      kLimit});
      expect_within(this->read(output), expected);
    }
  }
}

TYPED_TEST(UnaryTest, large_arrays_agree_with_double_also_unaligned) {
  for (auto const count : kManyFloats) {
    for (std::int64_t const offset : {0, 1}) {
      SCOPED_TRACE(fmt::format("count {}, offset {}", count, offset));
      auto const values = this->random.reals(count, -3.0F, 3.0F);
      auto const gradients = this->random.reals(count);
      std::vector<double> squares;
      std::vector<double> expected;
      for (std::size_t i = 0; i < values.size(); ++i) {
        squares.push_back(double{values[i]} * values[i]);
        expected.push_back(2.0 * values[i] * gradients[i]);
      }
      auto const input = this->upload(values);
      auto const output_gradient = this->upload(gradients);
      auto const output = this->guarded(count, offset);
      auto const gradient = this->guarded(count, offset);
      unary(this->stream(), {UnaryFunction::square, kEpsilon, input.data(), output.data(), count});
      unary_gradient(this->stream(),
                     {UnaryFunction::square,
                      kEpsilon,
                      input.data(),
                      output_gradient.data(),
                      gradient.data(),
                      count});
      expect_within(this->read(output), squares);
      expect_within(this->read(gradient), expected);
      unary(this->stream(), {UnaryFunction::square, kEpsilon, input.data(), input.data(), count});
      expect_within(this->read(input), squares);
    }
  }
}

TYPED_TEST(UnaryTest, not_a_number_stays_and_the_edges_are_what_the_functions_promise) {
  auto const nan = std::nanf("");
  auto const infinity = std::numeric_limits<float>::infinity();
  for (auto const& reference : kUnaryReferences) {
    expect_within(this->outputs(reference.function, {nan}), {kNaN});
  }
  expect_within(this->outputs(UnaryFunction::sqrt, {-1.0F, 0.0F, infinity}), {kNaN, 0, kInfinity});
  expect_within(this->outputs(UnaryFunction::log, {-1.0F, 0.0F, infinity}),
                {kNaN, -kInfinity, kInfinity});
  expect_within(this->outputs(UnaryFunction::exp, {-infinity, 1000.0F}), {0, kInfinity});
  expect_within(this->outputs(UnaryFunction::relu, {-infinity, -0.0F, infinity}),
                {0, 0, kInfinity});
  expect_within(this->outputs(UnaryFunction::tanh, {-infinity, 100.0F}), {-1, 1});
  expect_within(this->outputs(UnaryFunction::sigmoid, {-infinity, -1e20F, 1e20F, infinity}),
                {0, 0, 1, 1});
  expect_within(this->outputs(UnaryFunction::clamp, {-infinity, infinity}),
                {double{kEpsilon}, double{kLimit}});
  for (auto const function : {UnaryFunction::gelu, UnaryFunction::gelu_tanh, UnaryFunction::silu}) {
    expect_within(this->outputs(function, {-1e20F, -100.0F, 1e20F, infinity}),
                  {0, 0, 1e20, kInfinity});
    expect_within(this->derivatives(function, {-1e20F, -100.0F, 100.0F, 1e20F}), {0, 0, 1, 1});
  }
}

TYPED_TEST(UnaryTest, the_derivative_of_a_clamp_is_one_at_its_bounds) {
  EXPECT_EQ(this->derivatives(UnaryFunction::clamp, {0.0F, kEpsilon, 1.0F, kLimit, 2.0F}),
            (std::vector{0.0F, 1.0F, 1.0F, 1.0F, 0.0F}));
}

TYPED_TEST(UnaryTest, small_results_of_gelu_keep_their_digits) {
  auto const output = this->outputs(UnaryFunction::gelu, {-5.0F})[0];
  EXPECT_NEAR(output / (-5 * normal_distribution(-5.0)), 1.0, 1e-5);
}

TYPED_TEST(UnaryTest, derivatives_at_zero_are_zero_where_there_is_a_kink) {
  for (auto const function : {UnaryFunction::abs, UnaryFunction::sqrt_abs, UnaryFunction::relu}) {
    EXPECT_EQ(this->derivatives(function, {0.0F, -0.0F}), (std::vector{0.0F, 0.0F}));
  }
  EXPECT_EQ(this->derivatives(UnaryFunction::sqrt_abs, {0.0F, 4.0F}, 0.0F),
            (std::vector{0.0F, 0.25F}));
  expect_within(this->derivatives(UnaryFunction::abs, {std::nanf("")}), {kNaN});
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
