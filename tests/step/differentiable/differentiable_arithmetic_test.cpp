// SPDX-License-Identifier: Apache-2.0
#include "elementwise/broadcast_plan.hpp"
#include "step/gradient_fixture.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

std::pair<Shape, Shape> const kDifferentiatedOperands[] = {
    {{3, 4}, {3, 4}},
    {{3, 4}, {}},
    {{3, 4}, {4}},
    {{3, 4}, {3, 1}},
    {{3, 1}, {1, 4}},
    {{2, 3, 1, 2}, {3, 4, 1}},
};

/// Returns `values` broadcast from the shape `own` to `shape`, like NumPy's broadcast_to.
Doubles spread(Doubles const& values, Shape const& own, Shape const& shape) {
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
class DifferentiableArithmeticTest : public GradientTest<R> {
 protected:
  using Input = Tensor<float, R>;
  using Op = std::function<Input(GradientTape<R>&, Input const&, Input const&)>;

  /// Compares the gradients of an operation of two operands: by the left one, by the right one, and
  /// by a tensor that is both.
  void check(Op const& op, std::function<double(double, double)> const& function) {
    for (auto const& shapes : kDifferentiatedOperands) {
      auto const& left_shape = shapes.first;
      auto const& right_shape = shapes.second;
      SCOPED_TRACE(fmt::format("{} and {}", left_shape, right_shape));
      auto const left = this->random.reals(left_shape.count(), 0.5F, 2.0F);
      auto const right = this->random.reals(right_shape.count(), 0.5F, 2.0F);
      auto const shape = *ops::kernels::broadcast_shape(left_shape, right_shape);
      auto const reference = [&](Doubles const& a, Doubles const& b) {
        auto out = spread(a, left_shape, shape);
        auto const rights = spread(b, right_shape, shape);
        for (std::size_t i = 0; i < out.size(); ++i) {
          out[i] = function(out[i], rights[i]);
        }
        return out;
      };
      this->expect_gradient(
          left,
          left_shape,
          [&](auto& tape, auto const& x) { return op(tape, x, this->put(right, right_shape)); },
          [&](Doubles const& x) { return reference(x, to_doubles(right)); });
      this->expect_gradient(
          right,
          right_shape,
          [&](auto& tape, auto const& x) { return op(tape, this->put(left, left_shape), x); },
          [&](Doubles const& x) { return reference(to_doubles(left), x); });
    }
    this->expect_gradient(
        this->random.reals(6, 0.5F, 2.0F),
        {6},
        [&](auto& tape, auto const& x) { return op(tape, x, x); },
        [&](Doubles x) {
          for (auto& element : x) {
            element = function(element, element);
          }
          return x;
        });
  }
};
TYPED_TEST_SUITE(DifferentiableArithmeticTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableArithmeticTest, add) {
  this->check([](auto& tape, auto const& a, auto const& b) { return ops::add(tape, a, b); },
              [](double a, double b) { return a + b; });
}

TYPED_TEST(DifferentiableArithmeticTest, subtract) {
  this->check([](auto& tape, auto const& a, auto const& b) { return ops::subtract(tape, a, b); },
              [](double a, double b) { return a - b; });
}

TYPED_TEST(DifferentiableArithmeticTest, multiply) {
  this->check([](auto& tape, auto const& a, auto const& b) { return ops::multiply(tape, a, b); },
              [](double a, double b) { return a * b; });
}

TYPED_TEST(DifferentiableArithmeticTest, divide) {
  this->check([](auto& tape, auto const& a, auto const& b) { return ops::divide(tape, a, b); },
              [](double a, double b) { return a / b; });
}

/// Issues an empty operation, and returns the number of operations so far on its compute stream.
template <Runtime R>
std::uint64_t operations(Tensor<float, R> const& any) {
  return issue("count", reads(any), [](auto) {}).number;
}

TYPED_TEST(DifferentiableArithmeticTest, nothing_is_issued_for_an_operand_without_gradient) {
  auto const a = this->random_tensor({2, 3});
  auto const b = this->random_tensor({3});
  auto const c = this->random_tensor({2, 3});
  auto const issued_by = [&](typename TestFixture::Op const& op, auto const&... excluded) {
    GradientTape tape(this->device());
    (tape.without_gradient(excluded), ...);
    auto const loss = ops::mean(tape, op(tape, a, b));
    auto const before = operations(a);
    tape.backward(loss);
    return operations(a) - before - 1;
  };
  typename TestFixture::Op const tried[] = {
      [](auto& tape, auto const& x, auto const& y) { return ops::add(tape, x, y); },
      [](auto& tape, auto const& x, auto const& y) { return ops::subtract(tape, x, y); },
      [](auto& tape, auto const& x, auto const& y) { return ops::multiply(tape, x, y); },
      [](auto& tape, auto const& x, auto const& y) { return ops::divide(tape, x, y); },
  };
  // The numbers of launches for the gradient of the left operand alone, of the right operand alone,
  // which is a row, and of both operands.
  constexpr std::uint64_t kLaunches[][3] = {{0, 1, 1}, {0, 1, 1}, {1, 2, 3}, {1, 3, 3}};
  for (std::size_t i = 0; i < std::size(tried); ++i) {
    SCOPED_TRACE(fmt::format("operation {}", i));
    auto const of_mean = issued_by(tried[i], a, b);
    EXPECT_EQ(issued_by(tried[i], b) - of_mean, kLaunches[i][0]);
    EXPECT_EQ(issued_by(tried[i], a) - of_mean, kLaunches[i][1]);
    EXPECT_EQ(issued_by(tried[i], c) - of_mean, kLaunches[i][2]);
  }
}

TYPED_TEST(DifferentiableArithmeticTest, both_gradients_of_a_product_are_one_operation) {
  auto const a = this->random_tensor({2, 3});
  auto const issued_by = [&](Shape const& shape) {
    auto const b = this->random_tensor(shape);
    GradientTape tape(this->device());
    auto const loss = ops::mean(tape, ops::multiply(tape, a, b));
    auto const before = operations(a);
    tape.backward(loss);
    return operations(a) - before - 1;
  };
  // If one operand is a row, backward needs a product for each operand and a sum over the rows.
  EXPECT_EQ(issued_by({3}) - issued_by({2, 3}), 2U);
}

TYPED_TEST(DifferentiableArithmeticTest, an_operand_without_gradient_gets_none) {
  auto const x = this->random_tensor({2, 3});
  auto const data = this->random_tensor({3});
  GradientTape tape(this->device());
  tape.without_gradient(data);
  auto const product = ops::multiply(tape, x, data);
  tape.backward(ops::mean(tape, ops::divide(tape, ops::subtract(tape, product, data), data)));
  Floats const expected(6, 1.0F / 6);
  expect_near(to_host(tape.gradient(x)), to_doubles(expected));
  EXPECT_THROW((void)tape.gradient(data), std::logic_error);
}

}  // namespace
}  // namespace msstream::testing
