// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/elementwise.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace msstream::testing {
namespace {

template <class R>
class UnaryTest : public OpsTest<R> {
 protected:
  /// Returns 66 random elements of [low, high], the size of the tensors that matrix() makes.
  [[nodiscard]] Floats some(float low, float high) { return this->random.reals(66, low, high); }
  [[nodiscard]] Tensor<float, R> matrix(Floats const& values) const {
    return this->put(values, {6, 11});
  }
  static Doubles each(Floats const& values, auto function) {
    Doubles out(values.size());
    std::ranges::transform(values, out.begin(), [&](float x) { return function(double{x}); });
    return out;
  }
};
TYPED_TEST_SUITE(UnaryTest, Runtimes, RuntimeNames);

TYPED_TEST(UnaryTest, functions_agree_with_double) {
  auto const any = this->some(-3.0F, 3.0F);
  auto const positive = this->some(0.1F, 5.0F);
  auto const x = this->matrix(any);
  auto const p = this->matrix(positive);
  expect_near(to_host(ops::square(x)), this->each(any, [](double v) { return v * v; }));
  expect_near(to_host(ops::sqrt(p)), this->each(positive, [](double v) { return std::sqrt(v); }));
  expect_near(to_host(ops::abs(x)), this->each(any, [](double v) { return std::abs(v); }));
  expect_near(to_host(ops::sqrt_abs(x, 0.5F)),
              this->each(any, [](double v) { return std::sqrt(std::abs(v) + 0.5); }));
  expect_near(to_host(ops::relu(x)), this->each(any, [](double v) { return std::max(v, 0.0); }));
  expect_near(to_host(ops::exp(x)), this->each(any, [](double v) { return std::exp(v); }));
  expect_near(to_host(ops::log(p)), this->each(positive, [](double v) { return std::log(v); }));
  EXPECT_EQ(ops::exp(x).shape(), x.shape());
}

TYPED_TEST(UnaryTest, gradients_are_computed_from_what_their_names_say) {
  auto const ones = this->matrix(Floats(66, 1.0F));
  auto const any = this->some(-3.0F, 3.0F);
  auto const positive = this->some(0.1F, 5.0F);
  auto const x = this->matrix(any);
  auto const p = this->matrix(positive);
  auto const sign = [](double v) { return v < 0 ? -1.0 : 1.0; };
  expect_near(to_host(ops::square_gradient(x, ones)),
              this->each(any, [](double v) { return 2 * v; }));
  expect_near(to_host(ops::sqrt_gradient(ops::sqrt(p), ones)),
              this->each(positive, [](double v) { return 0.5 / std::sqrt(v); }));
  expect_near(to_host(ops::abs_gradient(x, ones)), this->each(any, sign));
  expect_near(to_host(ops::sqrt_abs_gradient(x, 0.5F, ones)), this->each(any, [&](double v) {
    return sign(v) * 0.5 / std::sqrt(std::abs(v) + 0.5);
  }));
  expect_near(to_host(ops::relu_gradient(ops::relu(x), ones)),
              this->each(any, [](double v) { return v > 0 ? 1.0 : 0.0; }));
  expect_near(to_host(ops::exp_gradient(ops::exp(x), ones)),
              this->each(any, [](double v) { return std::exp(v); }));
  expect_near(to_host(ops::log_gradient(p, ones)),
              this->each(positive, [](double v) { return 1 / v; }));
}

TYPED_TEST(UnaryTest, takes_tensors_without_elements) {
  EXPECT_TRUE(to_host(ops::exp(this->any({0, 3}))).empty());
  EXPECT_TRUE(to_host(ops::log_gradient(this->any({0}), this->any({0}))).empty());
}

TYPED_TEST(UnaryTest, refuses_what_does_not_fit) {
  auto const x = this->any({2, 3});
  auto const y = this->any({3, 2});
  expect_refused([&] { (void)ops::square_gradient(x, y); }, "square_gradient", "[2, 3]", "[3, 2]");
  expect_refused([&] { (void)ops::exp_gradient(x, y); }, "exp_gradient", "[2, 3]", "[3, 2]");
  expect_refused([&] { (void)ops::sqrt_abs(x, -1.0F); }, "sqrt_abs", "-1");
  expect_refused([&] { (void)ops::sqrt_abs(x, std::numeric_limits<float>::quiet_NaN()); },
                 "sqrt_abs");
}

}  // namespace
}  // namespace msstream::testing
