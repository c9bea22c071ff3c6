// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>

#include <cmath>
#include <limits>

namespace msstream::testing {
namespace {

constexpr float kUnlimited = std::numeric_limits<float>::infinity();

template <class R>
class InfiniteLogitsTest : public OpsTest<R> {};
TYPED_TEST_SUITE(InfiniteLogitsTest, Runtimes, RuntimeNames);

TYPED_TEST(InfiniteLogitsTest, bce_gives_the_limit) {
  auto const result = ops::bce_with_logits(
      this->put(Floats{
          kUnlimited, kUnlimited, kUnlimited, -kUnlimited, -kUnlimited, -kUnlimited, 200, -200}),
      this->put(Floats{1, 0, 0.25F, 0, 1, 0.25F, 1, 0}));
  EXPECT_EQ(to_host(result.losses),
            (Floats{0, kUnlimited, kUnlimited, 0, kUnlimited, kUnlimited, 0, 0}));
  EXPECT_EQ(to_host(result.gradients), (Floats{0, 1, 0.75F, 0, -1, -0.25F, 0, 0}));
}

TYPED_TEST(InfiniteLogitsTest, bce_keeps_what_is_not_a_number) {
  auto const nan = std::nanf("");
  auto const result = ops::bce_with_logits(this->put(Floats{nan, nan, 1, kUnlimited}),
                                           this->put(Floats{0, 1, nan, nan}));
  for (float const loss : to_host(result.losses)) {
    EXPECT_TRUE(std::isnan(loss));
  }
  for (float const gradient : to_host(result.gradients)) {
    EXPECT_TRUE(std::isnan(gradient));
  }
}

TYPED_TEST(InfiniteLogitsTest, sigmoid_saturates_with_a_gradient_of_zero) {
  auto const output = ops::sigmoid(this->put(Floats{kUnlimited, -kUnlimited}));
  EXPECT_EQ(to_host(output), (Floats{1, 0}));
  EXPECT_EQ(to_host(ops::sigmoid_gradient(output, this->put(Floats{3, 3}))), (Floats{0, 0}));
}

TYPED_TEST(InfiniteLogitsTest, cross_entropy_gives_the_limit) {
  for (std::int64_t const columns : {3, 2000}) {
    SCOPED_TRACE(columns);
    auto const row = [&](float first, float second, float rest) {
      Floats values(static_cast<std::size_t>(columns), rest);
      values[0] = first;
      values[1] = second;
      return values;
    };
    Floats logits;
    for (auto const& values : {row(kUnlimited, 5, 0),
                               row(5, kUnlimited, 0),
                               row(-kUnlimited, 5, 0),
                               row(0, -kUnlimited, -kUnlimited),
                               row(kUnlimited, kUnlimited, 0)}) {
      logits.insert(logits.end(), values.begin(), values.end());
    }
    auto const result =
        ops::softmax_cross_entropy(this->put(logits, {5, columns}), this->put(Integers(5, 0)));
    auto const losses = to_host(result.losses);
    EXPECT_EQ(Floats(losses.begin(), losses.end() - 1), (Floats{0, kUnlimited, kUnlimited, 0}));
    EXPECT_FLOAT_EQ(losses.back(), std::log(2.0F));
    auto const gradients = to_host(result.gradients);
    auto const of_row = [&](std::size_t i) {
      auto const first = gradients.begin() + static_cast<std::ptrdiff_t>(i) * columns;
      return Floats(first, first + 3);
    };
    EXPECT_EQ(of_row(0), (Floats{0, 0, 0}));
    EXPECT_EQ(of_row(1), (Floats{-1, 1, 0}));
    EXPECT_EQ(of_row(2)[0], -1);
    EXPECT_EQ(of_row(3), (Floats{0, 0, 0}));
    EXPECT_EQ(of_row(4), (Floats{-0.5F, 0.5F, 0}));
  }
}

}  // namespace
}  // namespace msstream::testing
