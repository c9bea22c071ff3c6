// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/base/format.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/elementwise.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace msstream::testing {
namespace {

std::pair<Shape, Shape> const kOperandShapes[] = {
    {{4, 6}, {4, 6}},
    {{4, 6}, {}},
    {{4, 6}, {6}},
    {{4, 6}, {4, 1}},
    {{1}, {2, 3}},
    {{5, 1}, {1, 3}},
    {{2, 3, 1, 4}, {3, 5, 1}},
    {{0, 4}, {4}},
};

/// Returns a tensor's elements broadcast to `shape`, in double, like NumPy's broadcast_to.
Doubles repeated(Floats const& values, Shape const& own, Shape const& shape) {
  Doubles out;
  for (std::int64_t place = 0; place < shape.count(); ++place) {
    auto rest = place;
    std::int64_t at = 0;
    std::int64_t stride = 1;
    for (std::size_t back = 0; back < own.rank(); ++back) {
      auto const extent = shape[shape.rank() - 1 - back];
      auto const own_extent = own[own.rank() - 1 - back];
      at += own_extent == 1 ? 0 : rest % extent * stride;
      stride *= own_extent;
      rest /= extent;
    }
    out.push_back(values[static_cast<std::size_t>(at)]);
  }
  return out;
}

template <class R>
class ArithmeticTest : public OpsTest<R> {
 protected:
  using Tensors = std::vector<Tensor<float, R>>;
};
TYPED_TEST_SUITE(ArithmeticTest, Runtimes, RuntimeNames);

TYPED_TEST(ArithmeticTest, agrees_with_double_for_all_ways_to_broadcast) {
  for (auto const& [left_shape, right_shape] : kOperandShapes) {
    SCOPED_TRACE(fmt::format("{} and {}", left_shape, right_shape));
    auto const left = this->random.reals(left_shape.count(), 0.5F, 2.0F);
    auto const right = this->random.reals(right_shape.count(), 0.5F, 2.0F);
    auto const a = this->put(left, left_shape);
    auto const b = this->put(right, right_shape);
    auto const sum = ops::add(a, b);
    auto const lefts = repeated(left, left_shape, sum.shape());
    auto const rights = repeated(right, right_shape, sum.shape());
    auto const expected = [&](auto function) {
      Doubles out(lefts.size());
      std::ranges::transform(lefts, rights, out.begin(), function);
      return out;
    };
    expect_near(to_host(sum), expected(std::plus()));
    expect_near(to_host(ops::subtract(a, b)), expected(std::minus()));
    expect_near(to_host(ops::multiply(a, b)), expected(std::multiplies()));
    expect_near(to_host(ops::divide(a, b)), expected(std::divides()));
    EXPECT_EQ(to_host(ops::add(b, a)), to_host(sum));
  }
}

TYPED_TEST(ArithmeticTest, the_result_has_the_shape_that_numpy_gives) {
  EXPECT_EQ(ops::add(this->any({2, 3, 1, 4}), this->any({3, 5, 1})).shape(), (Shape{2, 3, 5, 4}));
  EXPECT_EQ(ops::multiply(this->any({}), this->any({1, 1})).shape(), (Shape{1, 1}));
  EXPECT_EQ(ops::divide(this->any({1, 3}), this->any({0, 1})).shape(), (Shape{0, 3}));
}

TYPED_TEST(ArithmeticTest, two_tensors_are_added_as_a_list_of_two_is) {
  auto const a = this->random_tensor({3, 11});
  auto const b = this->random_tensor({3, 11});
  EXPECT_EQ(to_host(ops::add(a, b)), to_host(ops::add(typename TestFixture::Tensors{a, b})));
}

TYPED_TEST(ArithmeticTest, gradients_that_are_not_wanted_are_not_computed) {
  auto const a = this->random_tensor({2, 3});
  auto const b = this->random_tensor({3});
  auto const g = this->random_tensor({2, 3});
  for (bool const left : {false, true}) {
    for (bool const right : {false, true}) {
      ops::WantedOperands const wanted{left, right};
      for (auto const& gradients : {ops::add_gradient(a.shape(), b.shape(), g, wanted),
                                    ops::subtract_gradient(a.shape(), b.shape(), g, wanted),
                                    ops::multiply_gradient(a, b, g, wanted),
                                    ops::divide_gradient(a.shape(), b, g, g, wanted)}) {
        EXPECT_EQ(gradients.left.has_value(), left);
        EXPECT_EQ(gradients.right.has_value(), right);
        if (right) {
          EXPECT_EQ(gradients.right->shape(), b.shape());
        }
      }
    }
  }
}

TYPED_TEST(ArithmeticTest, both_gradients_of_a_product_are_the_two_products) {
  for (auto const& shape : {Shape{}, Shape{0, 3}, Shape{7, 5}, Shape{300, 440}}) {
    SCOPED_TRACE(fmt::format("{}", shape));
    auto const a = this->random_tensor(shape);
    auto const b = this->random_tensor(shape);
    auto const g = this->random_tensor(shape);
    auto const both = ops::multiply_gradient(a, b, g);
    EXPECT_EQ(both.left->shape(), shape);
    EXPECT_EQ(to_host(*both.left), to_host(ops::multiply(g, b)));
    EXPECT_EQ(to_host(*both.right), to_host(ops::multiply(g, a)));
    auto const of_a_square = ops::multiply_gradient(a, a, g);
    EXPECT_EQ(to_host(*of_a_square.left), to_host(ops::multiply(g, a)));
    EXPECT_EQ(to_host(*of_a_square.right), to_host(ops::multiply(g, a)));
  }
}

TYPED_TEST(ArithmeticTest, refuses_shapes_that_do_not_broadcast) {
  auto const x = this->any({2, 3});
  auto const y = this->any({3, 2});
  expect_refused([&] { (void)ops::add(x, y); }, "add", "[2, 3]", "[3, 2]");
  expect_refused([&] { (void)ops::subtract(x, y); }, "subtract", "[2, 3]", "[3, 2]");
  expect_refused([&] { (void)ops::multiply(x, y); }, "multiply", "[2, 3]", "[3, 2]");
  expect_refused([&] { (void)ops::divide(x, this->any({2})); }, "divide", "[2, 3]", "[2]");
  expect_refused(
      [&] { (void)ops::add_gradient(Shape{4}, Shape{3}, x); }, "sum_to", "[2, 3]", "[4]");
}

}  // namespace
}  // namespace msstream::testing
