// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/activation.hpp>
#include <msstream/ops/normalize.hpp>

#include <cmath>
#include <limits>

namespace msstream::testing {
namespace {

template <class R>
class NormalizeTest : public OpsTest<R> {
 protected:
  [[nodiscard]] ops::RunningStatistics<R> running(std::int64_t width) const {
    auto const count = static_cast<std::size_t>(width);
    return {this->put(Floats(count, 0.0F)), this->put(Floats(count, 1.0F))};
  }
  [[nodiscard]] Tensor<float, R> filled(std::int64_t width, float value) const {
    return this->put(Floats(static_cast<std::size_t>(width), value));
  }
};
TYPED_TEST_SUITE(NormalizeTest, Runtimes, RuntimeNames);

TYPED_TEST(NormalizeTest, a_batch_is_normalised_by_its_columns) {
  auto const x = this->put(Floats{1, 10, 3, 10, 5, 10, 7, 10}, {2, 2, 2});
  auto const running = this->running(2);
  auto const result = ops::batch_norm(
      x, this->filled(2, 2.0F), this->filled(2, 1.0F), running, {.momentum = 0.5F, .epsilon = 0});
  double const step = 1 / std::sqrt(5.0);
  auto const output = to_host(result.output);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(output[2 * i], 2 * (2 * static_cast<double>(i) - 3) * step + 1, 1e-6);
  }
  expect_near(to_host(running.mean), {2, 5});
  expect_near(to_host(running.variance), {0.5 + 0.5 * 20 / 3, 0.5});
  EXPECT_EQ(result.output.shape(), x.shape());
}

TYPED_TEST(NormalizeTest, inference_uses_the_running_statistics_and_leaves_them) {
  ops::RunningStatistics<TypeParam> const running{this->filled(3, 2.0F), this->filled(3, 4.0F)};
  auto const x = this->put(Floats{2, 4, 6, 0, 2, 4}, {2, 3});
  auto const output = ops::batch_norm_inference(
      x, this->filled(3, 1.0F), this->filled(3, 0.0F), running, {.epsilon = 0.0F});
  expect_near(to_host(output), {0, 1, 2, -1, 0, 1});
  EXPECT_EQ(to_host(running.mean), Floats(3, 2.0F));
  EXPECT_EQ(to_host(running.variance), Floats(3, 4.0F));
}

TYPED_TEST(NormalizeTest, computes_the_gradients_that_are_wanted) {
  auto const x = this->random_tensor({9, 3});
  auto const weight = this->random_tensor({3});
  auto const result = ops::batch_norm(x, weight, weight, this->running(3));
  auto const both = ops::batch_norm_gradient(x, weight, result.statistics, x);
  auto const parameters =
      ops::batch_norm_gradient(x, weight, result.statistics, x, {.input = false});
  EXPECT_TRUE(both.input && both.weight && both.bias);
  EXPECT_FALSE(parameters.input.has_value());
  EXPECT_EQ(to_host(*parameters.weight), to_host(*both.weight));
  auto const none = ops::batch_norm_gradient(
      x, weight, result.statistics, x, {.input = false, .parameters = false});
  EXPECT_FALSE(none.input || none.weight || none.bias);
}

TYPED_TEST(NormalizeTest, prelu_and_dice_take_one_weight_or_one_per_column) {
  auto const x = this->put(Floats{1, -2, -3, 4}, {2, 2});
  EXPECT_EQ(to_host(ops::prelu(x, this->put(Floats{0.5F}))), (Floats{1, -1, -1.5F, 4}));
  EXPECT_EQ(to_host(ops::prelu(x, this->put(Floats{2, 3}))), (Floats{1, -6, -6, 4}));
  auto const running = this->running(2);
  auto const dice = to_host(ops::dice(x, this->put(Floats{0.5F}), running, {.epsilon = 0}).output);
  // The columns are normalised to 1 and -1, and to -1 and 1.
  double const open = 1 / (1 + std::exp(-1.0));
  auto const expected = [&](double value, double p) { return value * (p + 0.5 * (1 - p)); };
  expect_near(
      dice, {expected(1, open), expected(-2, 1 - open), expected(-3, 1 - open), expected(4, open)});
  expect_near(to_host(running.mean), {-0.1, 0.1});
  ops::RunningStatistics<TypeParam> const fixed{this->filled(2, 0.0F), this->filled(2, 1.0F)};
  auto const inferred =
      to_host(ops::dice_inference(x, this->put(Floats{0.5F}), fixed, {.epsilon = 0}));
  EXPECT_NEAR(inferred[3], expected(4, 1 / (1 + std::exp(-4.0))), 1e-5);
}

TYPED_TEST(NormalizeTest, rows_get_a_norm_of_one) {
  auto const x = this->put(Floats{3, 4, 0, 0, -5, 12}, {3, 2});
  expect_near(to_host(ops::l2_normalize(x)), {0.6, 0.8, 0, 0, -5.0 / 13, 12.0 / 13});
  auto const large = this->put(Floats(8, 1e30F), {2, 4});
  expect_near(to_host(ops::l2_normalize(large)), Doubles(8, 0.5));
}

TYPED_TEST(NormalizeTest, clamps_and_adds) {
  auto const x = this->put(Floats{-2, 0, 2});
  EXPECT_EQ(to_host(ops::clamp(x, -1.0F, 1.0F)), (Floats{-1, 0, 1}));
  EXPECT_EQ(to_host(ops::clamp_gradient(x, -1.0F, 1.0F, x)), (Floats{0, 0, 0}));
  EXPECT_EQ(to_host(ops::add_scalar(x, 0.5F)), (Floats{-1.5F, 0.5F, 2.5F}));
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  expect_refused([&] { (void)ops::clamp(x, 1.0F, 0.0F); }, "clamp", "low 1", "high 0");
  expect_refused([&] { (void)ops::clamp(x, nan, 0.0F); }, "clamp", "low nan");
}

TYPED_TEST(NormalizeTest, refuses_what_does_not_fit) {
  auto const x = this->any({2, 3});
  auto const three = this->any({3});
  auto const two = this->any({2});
  auto const running = this->running(3);
  using Options = ops::BatchNormOptions<TypeParam>;
  expect_refused([&] { (void)ops::batch_norm(x, two, three, running); }, "batch_norm", "[2]");
  expect_refused([&] { (void)ops::batch_norm(x, three, two, running); }, "batch_norm", "[2]");
  expect_refused([&] { (void)ops::batch_norm(x, three, three, this->running(2)); },
                 "running mean [2]");
  expect_refused(
      [&] { (void)ops::batch_norm(x, three, three, running, Options{.momentum = 1.5F}); },
      "momentum of 1.5",
      "[0, 1]");
  expect_refused(
      [&] { (void)ops::batch_norm_inference(x, three, three, running, Options{.epsilon = -1.0F}); },
      "batch_norm_inference",
      "epsilon of -1");
  expect_refused([&] { (void)ops::batch_norm(this->any({}), three, three, running); }, "[]");
  expect_refused([&] { (void)ops::batch_norm_gradient(x, three, three, x); },
                 "batch_norm_gradient",
                 "statistics [3]");
  expect_refused(
      [&] { (void)ops::batch_norm(x, three, three, running, Options{.mask = this->any({4})}); },
      "batch_norm",
      "a mask [4] for 2 rows");
  expect_refused([&] { (void)ops::dice(x, three, running, Options{.mask = this->any({0})}); },
                 "dice",
                 "a mask [0] for 2 rows");
  expect_refused([&] { (void)ops::prelu(x, two); }, "prelu", "[2, 3]", "[2]");
  expect_refused([&] { (void)ops::dice(x, two, running); }, "dice", "[2, 3]", "[2]");
  expect_refused([&] { (void)ops::l2_normalize(x, 0.0F); }, "l2_normalize", "epsilon 0");
  expect_refused([&] { (void)ops::l2_normalize_gradient(x, three); }, "l2_normalize_gradient");
  expect_refused([&] { (void)ops::prelu_gradient(x, three, three); }, "prelu_gradient", "[3]");
}

}  // namespace
}  // namespace msstream::testing
