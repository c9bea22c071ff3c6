// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/layer_norm.hpp>

#include <cmath>
#include <limits>

namespace msstream::testing {
namespace {

template <class R>
class LayerNormTest : public OpsTest<R> {};
TYPED_TEST_SUITE(LayerNormTest, Runtimes, RuntimeNames);

TYPED_TEST(LayerNormTest, normalises_the_last_dimension) {
  Shape const shape{2, 3, 5};
  auto const values = this->random.reals(shape.count(), -2.0F, 5.0F);
  auto const gain = this->random.reals(5);
  auto const shift = this->random.reals(5);
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
      expected.push_back((values[5 * row + c] - mean) * reciprocals.back() * gain[c] + shift[c]);
    }
  }
  auto const result =
      ops::layer_norm(this->put(values, shape), this->put(gain), this->put(shift), 0.25F);
  EXPECT_EQ(result.output.shape(), shape);
  expect_near(to_host(result.output), expected);
  expect_near(to_host(result.means), means);
  expect_near(to_host(result.reciprocals), reciprocals);
}

TYPED_TEST(LayerNormTest, computes_the_gradients_that_are_wanted) {
  auto const x = this->random_tensor({4, 3});
  auto const gain = this->random_tensor({3});
  auto const result = ops::layer_norm(x, gain, gain);
  for (bool const input : {false, true}) {
    for (bool const parameters : {false, true}) {
      auto const gradients =
          ops::layer_norm_gradient(x, gain, result, x, {.input = input, .parameters = parameters});
      EXPECT_EQ(gradients.input.has_value(), input);
      EXPECT_EQ(gradients.gain.has_value(), parameters);
      EXPECT_EQ(gradients.shift.has_value(), parameters);
    }
  }
}

TYPED_TEST(LayerNormTest, without_rows_the_gradients_of_gain_and_shift_are_zero) {
  auto const x = this->any({0, 3});
  auto const gain = this->random_tensor({3});
  auto const result = ops::layer_norm(x, gain, gain);
  EXPECT_TRUE(to_host(result.output).empty());
  auto const gradients = ops::layer_norm_gradient(x, gain, result, x);
  EXPECT_EQ(to_host(*gradients.gain), Floats(3, 0.0F));
  EXPECT_EQ(to_host(*gradients.shift), Floats(3, 0.0F));
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
