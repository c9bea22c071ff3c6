// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"

#include <msstream/ops/matrix.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace msstream::testing {
namespace {

/// A sum of products in double, and the sum of their magnitudes.
struct DoubleSum {
  double value = 0;
  double magnitude = 0;

  void add(double term) {
    value += term;
    magnitude += std::abs(term);
  }
};

struct MatmulCase {
  std::int64_t batch;
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t columns;
  bool left_is_batch = false;
  bool right_is_batch = false;
};

template <class R>
class HalfMatmulTest : public HalfTest<R> {
 protected:
  /// Compares matmul() and its gradients in type T with sums in double of the rounded operands.
  template <class T>
  void expect_matmul(MatmulCase const& of, ops::MatmulOptions const& options) {
    SCOPED_TRACE(fmt::format("{} of {} x {} x {} of {}, left {}{}, right {}{}",
                             of.batch,
                             of.rows,
                             of.inner,
                             of.columns,
                             name_of(dtype_of<T>),
                             of.left_is_batch ? "batch" : "matrix",
                             options.transpose_left ? " transposed" : "",
                             of.right_is_batch ? "batch" : "matrix",
                             options.transpose_right ? " transposed" : ""));
    auto const shape = [&](bool is_batch, bool transposed, std::int64_t a, std::int64_t b) {
      auto const [first, second] = transposed ? std::pair(b, a) : std::pair(a, b);
      return is_batch ? Shape{of.batch, first, second} : Shape{first, second};
    };
    auto const left = this->template operand<T>(
        shape(of.left_is_batch, options.transpose_left, of.rows, of.inner));
    auto const right = this->template operand<T>(
        shape(of.right_is_batch, options.transpose_right, of.inner, of.columns));
    bool const batched = of.left_is_batch || of.right_is_batch;
    auto const dy = this->template operand<T>(shape(batched, false, of.rows, of.columns));
    // The places of the elements that enter op(left) and op(right) of matrix b.
    auto const left_place = [&](std::int64_t b, std::int64_t row, std::int64_t k) {
      return (of.left_is_batch ? b * of.rows * of.inner : 0) +
             (options.transpose_left ? k * of.rows + row : row * of.inner + k);
    };
    auto const right_place = [&](std::int64_t b, std::int64_t k, std::int64_t column) {
      return (of.right_is_batch ? b * of.inner * of.columns : 0) +
             (options.transpose_right ? column * of.inner + k : k * of.columns + column);
    };
    std::vector<DoubleSum> product(dy.values.size());
    std::vector<DoubleSum> left_gradient(left.values.size());
    std::vector<DoubleSum> right_gradient(right.values.size());
    double const factor = options.factor;
    for (std::int64_t b = 0; b < (batched ? of.batch : 1); ++b) {
      for (std::int64_t row = 0; row < of.rows; ++row) {
        for (std::int64_t column = 0; column < of.columns; ++column) {
          auto const out = (b * of.rows + row) * of.columns + column;
          for (std::int64_t k = 0; k < of.inner; ++k) {
            auto const l = left_place(b, row, k);
            auto const r = right_place(b, k, column);
            product[static_cast<std::size_t>(out)].add(factor * left.at(l) * right.at(r));
            left_gradient[static_cast<std::size_t>(l)].add(factor * dy.at(out) * right.at(r));
            right_gradient[static_cast<std::size_t>(r)].add(factor * dy.at(out) * left.at(l));
          }
        }
      }
    }
    auto const result = ops::matmul(left.tensor, right.tensor, options);
    static_assert(std::is_same_v<decltype(result), Tensor<T, R> const>);
    EXPECT_EQ(result.shape(), dy.tensor.shape());
    expect_sums(result, product);
    auto const of_left = ops::matmul_left_gradient(left.tensor, right.tensor, options, dy.tensor);
    EXPECT_EQ(of_left.shape(), left.tensor.shape());
    expect_sums(of_left, left_gradient);
    auto const of_right = ops::matmul_right_gradient(left.tensor, right.tensor, options, dy.tensor);
    EXPECT_EQ(of_right.shape(), right.tensor.shape());
    expect_sums(of_right, right_gradient);
  }

  template <class T>
  static void expect_sums(Tensor<T, R> const& actual, std::vector<DoubleSum> const& sums) {
    Doubles values;
    Doubles magnitudes;
    for (auto const& sum : sums) {
      values.push_back(sum.value);
      magnitudes.push_back(sum.magnitude);
    }
    expect_rounded_once(to_host(actual), values, magnitudes);
  }
};
TYPED_TEST_SUITE(HalfMatmulTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfMatmulTest, products_and_gradients_agree_with_double_and_are_rounded_once) {
  for (auto const& of : {MatmulCase{1, 1, 1, 1},
                         MatmulCase{1, 5, 3, 7},
                         MatmulCase{1, 16, 64, 8},
                         MatmulCase{3, 4, 5, 2, true, true},
                         MatmulCase{4, 6, 9, 5, true, false},
                         MatmulCase{5, 3, 8, 4, false, true}}) {
    for (bool const left : {false, true}) {
      for (bool const right : {false, true}) {
        ops::MatmulOptions const options{
            .transpose_left = left, .transpose_right = right, .factor = 0.75F};
        this->template expect_matmul<bfloat16>(of, options);
        this->template expect_matmul<float16>(of, options);
      }
    }
  }
}

TYPED_TEST(HalfMatmulTest, long_sums_that_are_cut_into_parts_agree_with_double) {
  this->template expect_matmul<bfloat16>({1, 3, 2000, 4}, {.transpose_left = true});
  this->template expect_matmul<float16>({1, 3, 1031, 4}, {.transpose_left = true});
  this->template expect_matmul<bfloat16>({2, 3, 1024, 4, true, true}, {.transpose_left = true});
}

TYPED_TEST(HalfMatmulTest, sums_are_rounded_once) {
  // In bfloat16, 256 + 1 is 256: sums that were rounded after each term would stay there.
  auto const ones = this->put(rounded_to<bfloat16>(Floats(512, 1.0F)), {1, 512});
  EXPECT_EQ(to_doubles(to_host(ops::matmul(ones, ones, {.transpose_right = true}))),
            Doubles{512.0});
  // The gradient of a matrix that serves a batch is a sum over the batch.
  auto const batch = this->put(rounded_to<bfloat16>(Floats(512, 1.0F)), {512, 1, 1});
  auto const one = this->put(rounded_to<bfloat16>(Floats{1.0F}), {1, 1});
  EXPECT_EQ(to_doubles(to_host(ops::matmul_left_gradient(one, batch, {}, batch))), Doubles{512.0});
  EXPECT_EQ(
      to_doubles(to_host(ops::matmul_right_gradient(batch, one, {.transpose_left = true}, batch))),
      Doubles{512.0});
}

TYPED_TEST(HalfMatmulTest, an_empty_sum_is_zero) {
  auto const left = this->template any<float16>({3, 0});
  auto const right = this->template any<float16>({0, 2});
  EXPECT_EQ(to_doubles(to_host(ops::matmul(left, right))), Doubles(6, 0.0));
}

TYPED_TEST(HalfMatmulTest, shapes_that_do_not_fit_are_refused) {
  auto const x = this->template any<bfloat16>({4, 3});
  auto const y = this->template any<bfloat16>({4, 2});
  expect_refused([&] { (void)ops::matmul(x, y); }, "matmul", "[4, 3]", "[4, 2]");
}

}  // namespace
}  // namespace msstream::testing
