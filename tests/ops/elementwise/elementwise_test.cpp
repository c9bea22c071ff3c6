// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace msstream::testing {
namespace {

/// Numbers of elements to test: none, one, a few, and more than one thread block or one launch
/// handles.
constexpr std::int64_t kCounts[] = {0, 1, 5, 1023, 70'001};

double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

template <class R>
class ElementwiseTest : public OpsTest<R> {
 protected:
  static Doubles mapped(Floats const& values, auto function) {
    Doubles out(values.size());
    std::ranges::transform(values, out.begin(), function);
    return out;
  }
};
TYPED_TEST_SUITE(ElementwiseTest, Runtimes, RuntimeNames);

TYPED_TEST(ElementwiseTest, maps_agree_with_double) {
  for (auto const count : kCounts) {
    auto const x = this->random.reals(count, -20.0F, 20.0F);
    auto const dy = this->random.reals(count);
    auto const input = this->put(x);
    expect_near(to_host(ops::scale(input, -0.3F)),
                this->mapped(x, [](double v) { return double{-0.3F} * v; }));
    auto const output = ops::sigmoid(input);
    expect_near(to_host(output), this->mapped(x, sigmoid));
    Doubles expected;
    auto const y = to_host(output);
    for (std::size_t i = 0; i < y.size(); ++i) {
      expected.push_back(double{dy[i]} * y[i] * (1.0 - y[i]));
    }
    expect_near(to_host(ops::sigmoid_gradient(output, this->put(dy))), expected);
    expect_near(to_host(ops::scale_by_scalar(input, this->put(Floats{1.5F}, {}), 0.5F)),
                this->mapped(x, [](double v) { return 0.75 * v; }));
  }
}

TYPED_TEST(ElementwiseTest, add_goes_front_to_back_for_as_many_terms_as_make_a_part) {
  for (std::size_t const terms : {1U, 2U, 31U, 32U}) {
    std::vector<Tensor<float, TypeParam>> tensors;
    Floats expected(33, 0.0F);
    for (std::size_t i = 0; i < terms; ++i) {
      auto const values = this->random.reals(33, -1e6F, 1e6F);
      tensors.push_back(this->put(values, {3, 11}));
      std::ranges::transform(expected, values, expected.begin(), [i](float sum, float v) {
        return i == 0 ? v : sum + v;
      });
    }
    EXPECT_EQ(to_host(ops::add(tensors)), expected) << terms << " terms";
  }
}

TYPED_TEST(ElementwiseTest, sums_and_means_agree_with_double) {
  for (auto const count : kCounts) {
    auto const x = this->random.reals(count, 0.0F, 1.0F);
    double const expected = std::accumulate(x.begin(), x.end(), 0.0);
    expect_near(to_host(ops::sum(this->put(x))), {expected}, 1e-5);
    expect_near(to_host(ops::scaled_sum(this->put(x), -2.0F)), {-2 * expected}, 1e-5);
    if (count > 0) {
      expect_near(to_host(ops::mean(this->put(x))), {expected / static_cast<double>(count)}, 1e-5);
    }
  }
}

TYPED_TEST(ElementwiseTest, broadcast_repeats_the_scalar) {
  auto const repeated = ops::broadcast(this->put(Floats{3.0F}, {}), 0.5F, {7, 3});
  EXPECT_EQ(repeated.shape(), (Shape{7, 3}));
  EXPECT_THAT(to_host(repeated), ::testing::Each(1.5F));
}

TYPED_TEST(ElementwiseTest, bce_agrees_with_double_and_does_not_overflow) {
  for (auto const count : kCounts) {
    auto x = this->random.reals(count, -5.0F, 5.0F);
    auto z = this->random.reals(count, 0.0F, 1.0F);
    if (count >= 5) {
      // Uses labels whose products with the logits are exact, since the rounding of larger products
      // would dominate the result.
      std::ranges::copy(Floats{1e4F, -1e4F, 0.0F}, x.begin());
      std::ranges::copy(Floats{0.25F, 0.75F, 0.5F}, z.begin());
    }
    auto const result = ops::bce_with_logits(this->put(x), this->put(z));
    Doubles losses;
    Doubles gradients;
    for (std::size_t i = 0; i < x.size(); ++i) {
      double const v = x[i];
      losses.push_back(std::max(v, 0.0) - v * z[i] + std::log1p(std::exp(-std::abs(v))));
      gradients.push_back(sigmoid(v) - z[i]);
    }
    expect_near(to_host(result.losses), losses, 1e-6);
    expect_near(to_host(result.gradients), gradients, 1e-6);
  }
}

TYPED_TEST(ElementwiseTest, a_label_outside_0_to_1_has_a_loss_and_a_gradient_of_nan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Floats const bad = {-1e-6F, 1.000001F, 2.0F, -1.0F, kInfinity, -kInfinity, std::nanf("")};
  Floats const good = {0.0F, 1.0F, -0.0F, 0.5F};
  for (float const logit : {0.0F, 3.0F, -3.0F}) {
    auto labels = good;
    labels.insert(labels.end(), bad.begin(), bad.end());
    auto const result =
        ops::bce_with_logits(this->put(Floats(labels.size(), logit)), this->put(labels));
    auto const losses = to_host(result.losses);
    auto const gradients = to_host(result.gradients);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      EXPECT_EQ(std::isnan(losses[i]), i >= good.size()) << "label " << labels[i];
      EXPECT_EQ(std::isnan(gradients[i]), i >= good.size()) << "label " << labels[i];
    }
    EXPECT_TRUE(std::isnan(to_host(ops::mean(result.losses)).front()));
  }
}

TYPED_TEST(ElementwiseTest, refuses_shapes_that_do_not_fit) {
  using Tensors = std::vector<Tensor<float, TypeParam>>;
  auto const x = this->any({2, 3});
  auto const y = this->any({3, 2});
  expect_refused([&] { (void)ops::add(Tensors{}); }, "add");
  expect_refused([&] { (void)ops::add(Tensors{x, x, y}); }, "add", "[2, 3]", "[3, 2]");
  expect_refused(
      [&] { (void)ops::sigmoid_gradient(x, y); }, "sigmoid_gradient", "[2, 3]", "[3, 2]");
  expect_refused([&] { (void)ops::mean(this->any({0, 3})); }, "mean", "[0, 3]");
  expect_refused([&] { (void)ops::broadcast(x, 1.0F, {4}); }, "broadcast", "[2, 3]");
  expect_refused([&] { (void)ops::scale_by_scalar(x, y, 1.0F); }, "scale_by_scalar", "[3, 2]");
  expect_refused(
      [&] { (void)ops::bce_with_logits(x, this->any({5})); }, "bce_with_logits", "[2, 3]", "[5]");
  expect_refused(
      [&] {
        (void)ops::bce_with_logits(this->any({8, 1}), this->any({8}));
      },
      "bce_with_logits",
      "[8, 1]",
      "[8]");
}

}  // namespace
}  // namespace msstream::testing
