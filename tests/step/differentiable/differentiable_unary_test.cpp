// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <algorithm>
#include <cmath>

namespace msstream::testing {
namespace {

template <class R>
class DifferentiableUnaryTest : public GradientTest<R> {
 protected:
  /// Compares gradients of a unary operation at elements with magnitudes in [0.1, 2], away from
  /// kinks and poles. If `may_be_negative`, half of the elements are negative.
  void check(bool may_be_negative, auto op, double (*function)(double)) {
    auto values = this->random.reals(20, 0.1F, 2.0F);
    for (std::size_t i = 0; may_be_negative && i < values.size(); i += 2) {
      values[i] = -values[i];
    }
    this->expect_gradient(values, {5, 4}, op, [function](Doubles x) {
      std::ranges::transform(x, x.begin(), function);
      return x;
    });
  }
};
TYPED_TEST_SUITE(DifferentiableUnaryTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableUnaryTest, square) {
  this->check(
      true,
      [](auto& tape, auto const& x) { return ops::square(tape, x); },
      [](double x) { return x * x; });
}

TYPED_TEST(DifferentiableUnaryTest, sqrt) {
  this->check(
      false,
      [](auto& tape, auto const& x) { return ops::sqrt(tape, x); },
      [](double x) { return std::sqrt(x); });
}

TYPED_TEST(DifferentiableUnaryTest, abs) {
  this->check(
      true,
      [](auto& tape, auto const& x) { return ops::abs(tape, x); },
      [](double x) { return std::abs(x); });
}

TYPED_TEST(DifferentiableUnaryTest, sqrt_abs) {
  this->check(
      true,
      [](auto& tape, auto const& x) { return ops::sqrt_abs(tape, x, 0.25F); },
      [](double x) { return std::sqrt(std::abs(x) + 0.25); });
}

TYPED_TEST(DifferentiableUnaryTest, relu) {
  this->check(
      true,
      [](auto& tape, auto const& x) { return ops::relu(tape, x); },
      [](double x) { return std::max(x, 0.0); });
}

TYPED_TEST(DifferentiableUnaryTest, exp) {
  this->check(
      true,
      [](auto& tape, auto const& x) { return ops::exp(tape, x); },
      [](double x) { return std::exp(x); });
}

TYPED_TEST(DifferentiableUnaryTest, log) {
  this->check(
      false,
      [](auto& tape, auto const& x) { return ops::log(tape, x); },
      [](double x) { return std::log(x); });
}

}  // namespace
}  // namespace msstream::testing
