// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/jagged.hpp>

namespace msstream::testing {
namespace {

template <class R>
class JaggedSoftmaxTest : public OpsTest<R> {};
TYPED_TEST_SUITE(JaggedSoftmaxTest, Runtimes, RuntimeNames);

TYPED_TEST(JaggedSoftmaxTest, each_segment_adds_up_to_one_in_each_column) {
  auto const offsets = this->put(Integers{0, 2, 2, 3});
  auto const values = this->put(Floats{0, 0, 0, std::log(3.0F), 7, 7, 5, 5}, {4, 2});
  auto const softmax = ops::jagged_softmax(values, offsets);
  EXPECT_EQ(softmax.shape(), (Shape{4, 2}));
  expect_near(to_host(softmax), {0.5, 0.25, 0.5, 0.75, 1, 1, 0, 0});
  auto const upstream = this->put(Floats{1, 1, 0, 0, 2, 2, 9, 9}, {4, 2});
  expect_near(to_host(ops::jagged_softmax_gradient(softmax, upstream, offsets)),
              {0.25, 0.1875, -0.25, -0.1875, 0, 0, 0, 0});
}

TYPED_TEST(JaggedSoftmaxTest, gradient_agrees_with_differences) {
  auto const offsets = this->put(Integers{0, 4, 9});
  auto const values = this->random.reals(9);
  auto const weights = this->random.reals(9);
  auto const loss = [&](Floats const& at) {
    auto const softmax = to_host(ops::jagged_softmax(this->put(at), offsets));
    double sum = 0;
    for (std::size_t i = 0; i < softmax.size(); ++i) {
      sum += double{softmax[i]} * weights[i];
    }
    return sum;
  };
  Doubles expected;
  constexpr float kStep = 1.0F / 64;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto above = values;
    auto below = values;
    above[i] += kStep;
    below[i] -= kStep;
    expected.push_back((loss(above) - loss(below)) / (2 * kStep));
  }
  auto const softmax = ops::jagged_softmax(this->put(values), offsets);
  expect_near(
      to_host(ops::jagged_softmax_gradient(softmax, this->put(weights), offsets)), expected, 1e-3);
}

TYPED_TEST(JaggedSoftmaxTest, takes_what_is_empty_and_refuses_shapes_that_do_not_fit) {
  auto const offsets = this->put(Integers{0, 0});
  auto const no_offsets = this->template any<std::int64_t>({0});
  EXPECT_EQ(ops::jagged_softmax(this->any({0, 3}), offsets).shape(), (Shape{0, 3}));
  expect_refused([&] { (void)ops::jagged_softmax(this->any({}), offsets); }, "jagged_softmax");
  expect_refused([&] { (void)ops::jagged_softmax(this->any({2}), no_offsets); }, "[2]", "[0]");
  expect_refused(
      [&] { (void)ops::jagged_softmax_gradient(this->any({2}), this->any({3}), offsets); },
      "jagged_softmax_gradient",
      "[2]",
      "[3]");
}

}  // namespace
}  // namespace msstream::testing
