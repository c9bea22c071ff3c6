// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"
#include "step/gradient_fixture.hpp"

#include <fmt/core.h>

#include <cmath>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class HalfArithmeticTest : public HalfTest<R> {
 protected:
  /// Compares add() or multiply() of matrices [rows, columns] or [1 or rows, 1 or columns], and
  /// their gradients, with double.
  template <class T>
  void expect_operation(bool multiplies, Shape const& left_shape, Shape const& right_shape) {
    SCOPED_TRACE(fmt::format("{} of {} and {} of {}",
                             multiplies ? "product" : "sum",
                             left_shape,
                             right_shape,
                             name_of(dtype_of<T>)));
    auto const rows = left_shape[0] == 1 ? right_shape[0] : left_shape[0];
    auto const columns = left_shape[1] == 1 ? right_shape[1] : left_shape[1];
    auto const left = this->template operand<T>(left_shape);
    auto const right = this->template operand<T>(right_shape);
    auto const dy = this->template operand<T>({rows, columns});
    Doubles expected;
    Doubles of_left(left.values.size(), 0.0);
    Doubles of_right(right.values.size(), 0.0);
    auto left_magnitudes = of_left;
    auto right_magnitudes = of_right;
    auto const place = [](Shape const& shape, std::int64_t row, std::int64_t column) {
      return static_cast<std::size_t>((shape[0] == 1 ? 0 : row) * shape[1] +
                                      (shape[1] == 1 ? 0 : column));
    };
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        auto const l = place(left_shape, row, column);
        auto const r = place(right_shape, row, column);
        double const gradient = dy.at(row * columns + column);
        expected.push_back(multiplies ? left.values[l] * right.values[r]
                                      : left.values[l] + right.values[r]);
        double const by_left = gradient * (multiplies ? right.values[r] : 1.0);
        double const by_right = gradient * (multiplies ? left.values[l] : 1.0);
        of_left[l] += by_left;
        of_right[r] += by_right;
        left_magnitudes[l] += std::abs(by_left);
        right_magnitudes[r] += std::abs(by_right);
      }
    }
    auto const compute = [&](auto& tape) {
      return multiplies ? ops::multiply(tape, left.tensor, right.tensor)
                        : ops::add(tape, left.tensor, right.tensor);
    };
    GradientTape tape(this->device());
    auto const y = compute(tape);
    static_assert(std::is_same_v<decltype(y), Tensor<T, R> const>);
    EXPECT_EQ(y.shape(), (Shape{rows, columns}));
    Doubles magnitudes;
    for (auto const value : expected) {
      magnitudes.push_back(std::abs(value));
    }
    expect_rounded_once(to_host(y), expected, magnitudes);
    expect_rounded_once(to_host(compute(no_tape)), expected, magnitudes);
    auto const wide = ops::cast<float>(dy.tensor);
    tape.backward(ops::sum(tape, ops::multiply(tape, ops::cast<float>(tape, y), wide)));
    expect_rounded_once(to_host(tape.gradient(left.tensor)), of_left, left_magnitudes);
    expect_rounded_once(to_host(tape.gradient(right.tensor)), of_right, right_magnitudes);
  }
};
TYPED_TEST_SUITE(HalfArithmeticTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfArithmeticTest, sums_and_products_of_two_agree_with_double) {
  for (bool const multiplies : {false, true}) {
    for (auto const& [left, right] : std::vector<std::pair<Shape, Shape>>{{{1, 1}, {1, 1}},
                                                                          {{5, 3}, {5, 3}},
                                                                          {{70, 64}, {70, 64}},
                                                                          {{6, 8}, {1, 8}},
                                                                          {{6, 1}, {6, 8}},
                                                                          {{7, 1}, {1, 5}},
                                                                          {{300, 4}, {1, 1}},
                                                                          {{0, 4}, {1, 4}}}) {
      this->template expect_operation<bfloat16>(multiplies, left, right);
      this->template expect_operation<float16>(multiplies, left, right);
    }
  }
}

TYPED_TEST(HalfArithmeticTest, a_sum_of_many_is_rounded_once) {
  // In bfloat16, 256 + 1 is 256, but the sum of all is 258.
  std::vector<Tensor<bfloat16, TypeParam>> terms;
  for (float const value : {256.0F, 1.0F, 1.0F}) {
    terms.push_back(this->put(rounded_to<bfloat16>(Floats(5, value))));
  }
  GradientTape tape(this->device());
  auto const sum = ops::add(tape, terms);
  EXPECT_EQ(to_doubles(to_host(sum)), Doubles(5, 258.0));
  EXPECT_EQ(to_doubles(to_host(ops::add(no_tape, terms))), Doubles(5, 258.0));
  tape.backward(ops::sum(tape, ops::cast<float>(tape, sum)));
  for (auto const& term : terms) {
    EXPECT_EQ(to_doubles(to_host(tape.gradient(term))), Doubles(5, 1.0));
  }
}

TYPED_TEST(HalfArithmeticTest, refuses_shapes_that_do_not_fit) {
  auto const x = this->template any<float16>({2, 3});
  auto const y = this->template any<float16>({2, 4});
  expect_refused([&] { (void)ops::multiply(no_tape, x, y); }, "multiply", "[2, 3]", "[2, 4]");
  expect_refused([&] { (void)ops::add(no_tape, std::vector{x, y}); }, "add", "[2, 3]", "[2, 4]");
}

}  // namespace
}  // namespace msstream::testing
