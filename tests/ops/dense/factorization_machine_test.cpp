// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"

#include <msstream/ops/interaction.hpp>

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <limits>

namespace msstream::testing {
namespace {

template <class R>
class FactorizationMachineTest : public HalfTest<R> {
 protected:
  template <class T>
  void expect_term(std::int64_t batch, std::int64_t features, std::int64_t width) {
    SCOPED_TRACE(fmt::format("{} x {} x {} of {}", batch, features, width, name_of(dtype_of<T>)));
    auto const x = this->template operand<T>({batch, features, width});
    auto const dy = this->template operand<T>({batch, 1});
    Doubles output;
    Doubles output_magnitudes;
    Doubles gradient(x.values.size(), 0.0);
    Doubles gradient_magnitudes(x.values.size(), 0.0);
    for (std::int64_t sample = 0; sample < batch; ++sample) {
      // Half of (Σ v)² - Σ v², and the same of the magnitudes.
      double term = 0;
      double magnitude = 0;
      for (std::int64_t column = 0; column < width; ++column) {
        auto const place = [&](std::int64_t feature) {
          return (sample * features + feature) * width + column;
        };
        double sum = 0;
        double squares = 0;
        double magnitudes = 0;
        for (std::int64_t feature = 0; feature < features; ++feature) {
          double const value = x.at(place(feature));
          sum += value;
          squares += value * value;
          magnitudes += std::abs(value);
        }
        term += (sum * sum - squares) / 2;
        magnitude += (magnitudes * magnitudes - squares) / 2;
        for (std::int64_t feature = 0; feature < features; ++feature) {
          auto const i = static_cast<std::size_t>(place(feature));
          gradient[i] = dy.at(sample) * (sum - x.values[i]);
          gradient_magnitudes[i] = std::abs(dy.at(sample)) * (magnitudes - std::abs(x.values[i]));
        }
      }
      output.push_back(term);
      output_magnitudes.push_back(magnitude);
    }
    auto const result = ops::factorization_machine(x.tensor);
    static_assert(std::is_same_v<decltype(result), Tensor<T, R> const>);
    EXPECT_EQ(result.shape(), (Shape{batch, 1}));
    expect_rounded_once(to_host(result), output, output_magnitudes);
    auto const of_x = ops::factorization_machine_gradient(x.tensor, dy.tensor);
    EXPECT_EQ(of_x.shape(), x.tensor.shape());
    // Float64 errors, and half a unit in the last place of T.
    Doubles bounds;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      auto const error = static_cast<double>(features + 2) * 0x1p-53 * gradient_magnitudes[i];
      bounds.push_back(rounding_bound<T>(gradient[i], error));
    }
    expect_bounded(to_host(of_x), gradient, bounds);
  }
};
TYPED_TEST_SUITE(FactorizationMachineTest, Runtimes, RuntimeNames);

TYPED_TEST(FactorizationMachineTest, term_and_gradient_agree_with_double) {
  for (auto const& [batch, features, width] : {std::array{1, 1, 1},
                                               {3, 2, 1},
                                               {7, 4, 7},
                                               {70, 26, 16},
                                               {5, 100, 33},
                                               {4, 3, 64},
                                               {2, 5, 1000},
                                               {31, 7, 3},
                                               {3, 31, 100},
                                               {2, 32, 128},
                                               {2, 33, 129},
                                               {1, 64, 16},
                                               {1, 65, 12},
                                               {2, 3, 4096},
                                               {8192, 2, 8},
                                               {0, 3, 4},
                                               {3, 0, 4},
                                               {3, 4, 0}}) {
    this->template expect_term<float>(batch, features, width);
    this->template expect_term<float16>(batch, features, width);
    this->template expect_term<bfloat16>(batch, features, width);
  }
}

TYPED_TEST(FactorizationMachineTest, squares_do_not_cancel) {
  // (4096 + 2^-12)² - 4096² - 2^-24 is 2 in exact numbers; its squares alone are 2^24.
  auto const x = this->put(Floats{4096.0F, 0x1p-12F}, {1, 2, 1});
  EXPECT_EQ(to_host(ops::factorization_machine(x)), Floats{1.0F});
}

TYPED_TEST(FactorizationMachineTest, gradients_do_not_cancel) {
  // The gradient of an element is the sum of the others: small beside a large one.
  auto const x = this->put(Floats{4096.0F, 0x1p-12F, 0x1p-13F}, {1, 3, 1});
  auto const dy = this->put(Floats{1.0F}, {1, 1});
  EXPECT_EQ(to_host(ops::factorization_machine_gradient(x, dy)),
            (Floats{0x1p-12F + 0x1p-13F, 4096.0F + 0x1p-13F, 4096.0F + 0x1p-12F}));
}

TYPED_TEST(FactorizationMachineTest, sums_of_many_features_are_rounded_once) {
  // In bfloat16, 256 + 1 is 256. There are 1024 * 1023 / 2 pairs of ones.
  auto const x = this->put(rounded_to<bfloat16>(Floats(1024, 1.0F)), {1, 1024, 1});
  EXPECT_EQ(to_doubles(to_host(ops::factorization_machine(x))),
            Doubles{to_float(from_float<bfloat16>(523'776.0F))});
}

TYPED_TEST(FactorizationMachineTest, a_result_near_the_middle_of_two_numbers_is_rounded_once) {
  // 257 is in the middle of the bfloat16 numbers 256 and 258, and 2049 of the float16 numbers 2048
  // and 2050. The product is the middle ± 2^-20, which a float32 number does not hold.
  auto const product_of = [&]<class T>(T, float large, float tiny) {
    auto const x =
        this->put(rounded_to<T>(Floats{large, 1.0F, 0x1p-10F, 1.0F, 1.0F, tiny}), {1, 2, 3});
    return to_float(to_host(ops::factorization_machine(x)).front());
  };
  EXPECT_EQ(product_of(bfloat16{}, 256.0F, 0x1p-10F), 258.0F);
  EXPECT_EQ(product_of(bfloat16{}, -258.0F, 0x1p-10F), -256.0F);
  EXPECT_EQ(product_of(float16{}, 2048.0F, 0x1p-10F), 2050.0F);
  EXPECT_EQ(product_of(float16{}, -2050.0F, 0x1p-10F), -2048.0F);

  // The sum of the others, 1 + 2^-24, is in the middle of two float32 numbers.
  auto const x = this->put(Floats{0.0F, 1.0F, 0x1p-24F}, {1, 3, 1});
  auto const dy = this->put(Floats{3.0F}, {1, 1});
  EXPECT_EQ(to_host(ops::factorization_machine_gradient(x, dy)),
            (Floats{3.0F + 0x1p-22F, 0x3p-24F, 3.0F}));
}

TYPED_TEST(FactorizationMachineTest, overflows_and_numbers_below_the_range_are_rounded_once) {
  auto const of = [&]<class T>(T, float large, float factor) {
    auto const x = this->put(rounded_to<T>(Floats{large, factor}), {1, 2, 1});
    return to_float(to_host(ops::factorization_machine(x)).front());
  };
  float const inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(of(float{}, 0x1p127F, -2.0F), -inf);
  EXPECT_EQ(of(bfloat16{}, 0x1p127F, 2.0F), inf);
  EXPECT_EQ(of(float16{}, 0x1p15F, 2.0F), inf);
  EXPECT_EQ(of(float16{}, 0x1p15F, -0x1.ffcp0F), -65'504.0F);
  EXPECT_EQ(of(float16{}, 0x1p-24F, 0.5F), 0.0F);
  EXPECT_EQ(of(float16{}, 0x1.8p-13F, 0x1p-12F), 0x1p-24F);
  EXPECT_TRUE(std::isnan(of(float16{}, inf, 0.0F)));
}

TYPED_TEST(FactorizationMachineTest, gradients_below_the_range_are_rounded_once) {
  // The first feature is 0, so that its gradient is the product of the others' sum and dy.
  auto const of = [&]<class T>(T, float dy, float first, float second) {
    auto const x = this->put(rounded_to<T>(Floats{0.0F, first, second}), {1, 3, 1});
    auto const of_output = this->put(rounded_to<T>(Floats{dy}), {1, 1});
    return to_float(to_host(ops::factorization_machine_gradient(x, of_output)).front());
  };
  // 2^-134 is in the middle of the bfloat16 numbers 0 and 2^-133, also beside a term that is lost
  // in a float32 number of that size.
  EXPECT_EQ(of(bfloat16{}, 0x1p-100F, 0x1p-34F, 0.0F), 0.0F);
  EXPECT_EQ(of(bfloat16{}, 0x1p-100F, 0x1p-34F, 0x1p-52F), 0x1p-133F);
  EXPECT_EQ(of(bfloat16{}, 0x1p-100F, 0x1p-34F, -0x1p-52F), 0.0F);
  EXPECT_EQ(of(bfloat16{}, -0x1p-100F, 0x1p-33F, 0x1p-34F), -0x1p-132F);
  EXPECT_EQ(of(bfloat16{}, 0x1p-100F, 0x1p-60F, 0.0F), 0.0F);
  EXPECT_EQ(of(float16{}, 0x1p-14F, 0x1p-11F, 0.0F), 0.0F);
  EXPECT_EQ(of(float16{}, 0x1p-14F, 0x1p-11F, 0x1p-24F), 0x1p-24F);
  EXPECT_EQ(of(float{}, 0x1p-100F, 0x1p-50F, 0.0F), 0.0F);
  EXPECT_EQ(of(float{}, 0x1p-100F, 0x1p-50F, 0x1p-80F), 0x1p-149F);
}

TYPED_TEST(FactorizationMachineTest, gradients_have_infinities_and_nan) {
  float const inf = std::numeric_limits<float>::infinity();
  auto const of = [&]<class T>(T, Floats const& vectors, float dy) {
    auto const x = this->put(rounded_to<T>(vectors), {1, std::ssize(vectors), 1});
    auto const of_output = this->put(rounded_to<T>(Floats{dy}), {1, 1});
    Floats gradients;
    for (auto const gradient : to_host(ops::factorization_machine_gradient(x, of_output))) {
      gradients.push_back(to_float(gradient));
    }
    return gradients;
  };
  auto const expect_all = [&]<class T>(T type) {
    auto const of_infinity = of(type, {1.0F, inf, 2.0F}, -1.0F);
    EXPECT_EQ(of_infinity[0], -inf);
    EXPECT_TRUE(std::isnan(of_infinity[1]));
    EXPECT_EQ(of_infinity[2], -inf);
    for (float const gradient : of(type, {1.0F, std::nanf(""), 2.0F}, 1.0F)) {
      EXPECT_TRUE(std::isnan(gradient));
    }
    for (float const gradient : of(type, {0.0F, 0.0F}, inf)) {
      EXPECT_TRUE(std::isnan(gradient));
    }
  };
  expect_all(float{});
  expect_all(float16{});
  expect_all(bfloat16{});
  EXPECT_EQ(of(float16{}, {0.0F, 0x1p15F}, 2.0F)[0], inf);
  EXPECT_EQ(of(bfloat16{}, {0.0F, 0x1p127F}, -2.0F)[0], -inf);
  EXPECT_EQ(of(float{}, {0.0F, 0x1p127F}, 2.0F)[0], inf);
}

TYPED_TEST(FactorizationMachineTest, refuses_shapes_that_do_not_fit) {
  auto const x = this->any({2, 3, 4});
  expect_refused(
      [&] {
        (void)ops::factorization_machine(this->any({2, 12}));
      },
      "factorization_machine",
      "[2, 12]");
  expect_refused([&] { (void)ops::factorization_machine_gradient(x, this->any({2})); },
                 "factorization_machine_gradient",
                 "[2, 3, 4]",
                 "[2]");
}

}  // namespace
}  // namespace msstream::testing
