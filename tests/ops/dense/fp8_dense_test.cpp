// SPDX-License-Identifier: Apache-2.0
#include "kernels/mixed/fp8_fixture.hpp"
#include "ops/half_values.hpp"

#include <msstream/ops/cast.hpp>
#include <msstream/ops/dense.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace msstream::testing {
namespace {

using ops::Activation;
using ops::kernels::Fp8Format;
using ops::kernels::testing::kFp8SumError;
using ops::kernels::testing::quantised_numbers;

template <class R>
class Fp8DenseTest : public HalfTest<R> {
 protected:
  template <class T>
  void expect_dense(std::int64_t batch,
                    std::int64_t inputs,
                    std::int64_t outputs,
                    Activation activation) {
    SCOPED_TRACE(fmt::format("{} x {} x {} of {}", batch, inputs, outputs, name_of(dtype_of<T>)));
    auto const x = this->template operand<T>({batch, inputs});
    auto const w = this->template operand<T>({inputs, outputs}, -0.25F, 0.25F);
    auto const b = this->template operand<T>({outputs});
    auto const result = to_host(ops::dense_fp8(x.tensor, w.tensor, b.tensor, activation));
    auto const left = quantised_numbers(x.values, Fp8Format::e4m3);
    auto const right = quantised_numbers(w.values, Fp8Format::e4m3);
    Doubles expected;
    Doubles bounds;
    for (std::int64_t row = 0; row < batch; ++row) {
      for (std::int64_t column = 0; column < outputs; ++column) {
        double sum = b.at(column);
        double magnitude = std::abs(sum);
        for (std::int64_t k = 0; k < inputs; ++k) {
          double const term = left[static_cast<std::size_t>(row * inputs + k)] *
                              right[static_cast<std::size_t>(k * outputs + column)];
          sum += term;
          magnitude += std::abs(term);
        }
        double const before = kFp8SumError * magnitude;
        if (activation == Activation::gelu_tanh) {
          // The sum is rounded, and the function, whose slope is at most 1.13, once more.
          double const rounded = 1.13 * rounding_bound<T>(sum, before);
          double const inner = std::sqrt(2 / std::acos(-1.0)) * (sum + 0.044715 * sum * sum * sum);
          expected.push_back(0.5 * sum * (1 + std::tanh(inner)));
          bounds.push_back(rounding_bound<T>(expected.back(), rounded + 1e-6));
        } else {
          expected.push_back(activation == Activation::relu ? std::max(sum, 0.0) : sum);
          // The result is rounded twice if cuBLASLt does not offer the activation.
          bounds.push_back(rounding_bound<T>(sum, rounding_bound<T>(sum, before)));
        }
      }
    }
    expect_bounded(result, expected, bounds);
  }
};
TYPED_TEST_SUITE(Fp8DenseTest, Runtimes, RuntimeNames);

TYPED_TEST(Fp8DenseTest, is_the_product_of_the_quantised_operands) {
  for (auto const& [batch, inputs, outputs] : {std::array{32, 16, 16},
                                               {1, 64, 32},
                                               {37, 100, 48},
                                               {50, 17, 33},
                                               {9, 479, 64},
                                               {0, 16, 16}}) {
    for (auto const activation : {Activation::none, Activation::relu, Activation::gelu_tanh}) {
      this->template expect_dense<float>(batch, inputs, outputs, activation);
      this->template expect_dense<bfloat16>(batch, inputs, outputs, activation);
      this->template expect_dense<float16>(batch, inputs, outputs, activation);
    }
  }
}

TYPED_TEST(Fp8DenseTest, is_dense_itself_with_few_inputs_or_outputs) {
  for (auto const& [inputs, outputs] : {std::array{15, 64}, {64, 15}, {64, 1}, {1, 1}}) {
    auto const x = this->template operand<bfloat16>({20, inputs});
    auto const w = this->template operand<bfloat16>({inputs, outputs});
    auto const b = this->template operand<bfloat16>({outputs});
    EXPECT_EQ(to_doubles(to_host(ops::dense_fp8(x.tensor, w.tensor, b.tensor, Activation::relu))),
              to_doubles(to_host(ops::dense(x.tensor, w.tensor, b.tensor, Activation::relu))));
  }
}

TYPED_TEST(Fp8DenseTest, infinities_and_nan_reach_the_results_that_they_are_terms_of) {
  constexpr std::int64_t kBatch = 8;
  constexpr std::int64_t kWidth = 32;
  for (float const bad : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    auto x = this->random.reals(kBatch * kWidth);
    auto w = this->random.reals(kWidth * kWidth);
    x[3 * kWidth + 4] = bad;
    w[5 * kWidth + 6] = bad;
    auto const y = to_host(ops::dense_fp8(this->put(x, {kBatch, kWidth}),
                                          this->put(w, {kWidth, kWidth}),
                                          zeros<float>(this->device(), {kWidth}),
                                          Activation::relu));
    for (std::int64_t i = 0; i < kBatch * kWidth; ++i) {
      EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(i)]), i / kWidth == 3 || i % kWidth == 6)
          << "element " << i << " beside " << bad;
    }
  }
}

TYPED_TEST(Fp8DenseTest, zeros_give_the_bias) {
  auto const x = zeros<float>(this->device(), {4, 16});
  auto const w = zeros<float>(this->device(), {16, 16});
  auto const b = this->random_tensor({16});
  auto const y = to_host(ops::dense_fp8(x, w, b));
  auto const expected = to_host(b);
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], expected[i % 16]);
  }
}

TYPED_TEST(Fp8DenseTest, the_scale_is_that_of_each_matrix) {
  // A power of two as a factor changes the scale, and no digit of the result.
  auto const x = this->template operand<float>({16, 48});
  auto const w = this->template operand<float>({48, 32});
  auto const b = zeros<float>(this->device(), {32});
  auto const times = [&](Doubles const& values, float factor, Shape const& shape) {
    Floats scaled;
    for (double const value : values) {
      scaled.push_back(static_cast<float>(value) * factor);
    }
    return this->put(scaled, shape);
  };
  auto const y = to_host(ops::dense_fp8(x.tensor, w.tensor, b));
  auto const scaled = to_host(
      ops::dense_fp8(times(x.values, 0x1p40F, {16, 48}), times(w.values, 0x1p-60F, {48, 32}), b));
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(scaled[i], y[i] * 0x1p-20F);
  }
}

TYPED_TEST(Fp8DenseTest, refuses_other_shapes) {
  auto const x = this->any({4, 16});
  auto const b = this->any({32});
  expect_refused(
      [&] {
        (void)ops::dense_fp8(x, this->any({17, 32}), b);
      },
      "dense_fp8",
      "[4, 16]",
      "[17, 32]");
  expect_refused([&] { (void)ops::dense_fp8(x, this->any({16, 64}), b); }, "[16, 64]", "[32]");
  expect_refused(
      [&] {
        (void)ops::dense_fp8(x, this->any({2, 16, 32}), b);
      },
      "dense_fp8",
      "[2, 16, 32]");
}

TYPED_TEST(Fp8DenseTest, a_weight_that_is_quantised_once_gives_the_same_bits) {
  for (auto const& [batch, inputs, outputs] : {std::array{32, 16, 16}, {9, 479, 33}, {0, 32, 16}}) {
    auto const x = this->template operand<bfloat16>({batch, inputs});
    auto const w = this->template operand<bfloat16>({inputs, outputs});
    auto const b = this->template operand<bfloat16>({outputs});
    ops::Fp8Weight const weight(w.tensor);
    EXPECT_EQ(weight.inputs(), inputs);
    EXPECT_EQ(weight.outputs(), outputs);
    for (auto const activation : {Activation::none, Activation::relu, Activation::gelu_tanh}) {
      auto const expected = to_host(ops::dense_fp8(x.tensor, w.tensor, b.tensor, activation));
      auto const before = this->device().operation_count();
      auto const result = ops::dense_fp8(x.tensor, weight, b.tensor, activation);
      auto const operations = this->device().operation_count() - before;
      EXPECT_EQ(operations, activation == Activation::gelu_tanh ? 3U : 2U)
          << "the weight was quantised again";
      EXPECT_EQ(to_doubles(to_host(result)), to_doubles(expected));
    }
  }
}

TYPED_TEST(Fp8DenseTest, a_quantised_weight_keeps_its_numbers_and_refuses_what_does_not_fit) {
  auto const x = this->random_tensor({4, 16});
  auto const w = this->random_tensor({16, 32});
  auto const b = this->random_tensor({32});
  ops::Fp8Weight const weight(w);
  auto const expected = to_host(ops::dense_fp8(x, w, b));
  copy(w, this->random_tensor({16, 32}));
  EXPECT_EQ(to_host(ops::dense_fp8(x, weight, b)), expected);
  for (Shape const& shape : {Shape{15, 32}, {32, 15}, {64}, {2, 16, 16}}) {
    EXPECT_THROW(ops::Fp8Weight(zeros<float>(this->device(), shape)), std::invalid_argument);
  }
  EXPECT_THROW(static_cast<void>(ops::dense_fp8(this->random_tensor({4, 17}), weight, b)),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(ops::dense_fp8(x, weight, this->random_tensor({16}))),
               std::invalid_argument);
}

}  // namespace
}  // namespace msstream::testing
