// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/cast.hpp>
#include <msstream/ops/dense.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

namespace msstream::testing {
namespace {

using ops::Activation;

/// The relative error of rounding to T, with room for sums whose parts are rounded once more.
template <class T>
constexpr double kRounding = std::is_same_v<T, bfloat16> ? 1.0 / 100 : 1.0 / 800;

template <class T>
std::vector<T> rounded(Floats const& values) {
  std::vector<T> out;
  for (auto const value : values) {
    out.push_back(from_float<T>(value));
  }
  return out;
}

template <class R>
class HalfDenseTest : public OpsTest<R> {
 protected:
  template <class T>
  struct Operand {
    Tensor<T, R> tensor;
    Doubles values;  ///< as rounded to T
  };
  template <class T>
  Operand<T> operand(Shape const& shape) {
    auto const values = rounded<T>(this->random.reals(shape.count()));
    return {this->put(values, shape), to_doubles(values)};
  }

  /// Compares dense() and its gradients in type T with sums in double of the rounded operands.
  template <class T>
  void expect_dense(std::int64_t batch,
                    std::int64_t inputs,
                    std::int64_t outputs,
                    Activation kind) {
    SCOPED_TRACE(fmt::format("{} x {} x {} of {}", batch, inputs, outputs, name_of(dtype_of<T>)));
    auto const x = operand<T>({batch, inputs});
    auto const w = operand<T>({inputs, outputs});
    auto const b = operand<T>({outputs});
    auto const dy = operand<T>({batch, outputs});
    auto const at =
        [](Doubles const& of, std::int64_t row, std::int64_t width, std::int64_t column) {
          return of[static_cast<std::size_t>(row * width + column)];
        };

    auto const output = ops::dense(x.tensor, w.tensor, b.tensor, kind);
    Doubles expected;
    for (std::int64_t row = 0; row < batch; ++row) {
      for (std::int64_t column = 0; column < outputs; ++column) {
        double sum = at(b.values, 0, 0, column);
        for (std::int64_t k = 0; k < inputs; ++k) {
          sum += at(x.values, row, inputs, k) * at(w.values, k, outputs, column);
        }
        expected.push_back(kind == Activation::relu ? std::max(sum, 0.0) : sum);
      }
    }
    auto const given = to_doubles(to_host(output));
    auto const scale = std::sqrt(static_cast<double>(inputs + 1));
    this->template expect_close<T>(given, expected, scale);

    auto const gradients = ops::dense_gradient(x.tensor, w.tensor, output, kind, dy.tensor, true);
    auto const masked = [&](std::int64_t row, std::int64_t column) {
      bool const passes = kind == Activation::none || at(given, row, outputs, column) > 0;
      return passes ? at(dy.values, row, outputs, column) : 0.0;
    };
    Doubles dx;
    for (std::int64_t row = 0; row < batch; ++row) {
      for (std::int64_t k = 0; k < inputs; ++k) {
        double sum = 0;
        for (std::int64_t column = 0; column < outputs; ++column) {
          sum += masked(row, column) * at(w.values, k, outputs, column);
        }
        dx.push_back(sum);
      }
    }
    this->template expect_close<T>(
        to_doubles(to_host(*gradients.input)), dx, std::sqrt(static_cast<double>(outputs)));
    Doubles dw;
    Doubles db;
    for (std::int64_t k = 0; k < inputs; ++k) {
      for (std::int64_t column = 0; column < outputs; ++column) {
        double sum = 0;
        for (std::int64_t row = 0; row < batch; ++row) {
          sum += at(x.values, row, inputs, k) * masked(row, column);
        }
        dw.push_back(sum);
      }
    }
    for (std::int64_t column = 0; column < outputs; ++column) {
      double sum = 0;
      for (std::int64_t row = 0; row < batch; ++row) {
        sum += masked(row, column);
      }
      db.push_back(sum);
    }
    // Gradients of weights are float32, from operands that were rounded before.
    expect_near(to_host(gradients.weight), dw, 1e-4);
    expect_near(to_host(gradients.bias), db, 1e-4);
  }
  template <class T>
  static void expect_close(Doubles const& given, Doubles const& expected, double scale) {
    ASSERT_EQ(given.size(), expected.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      ASSERT_TRUE(std::abs(given[i] - expected[i]) <=
                  kRounding<T> * std::abs(expected[i]) + 1e-5 * scale)
          << "element " << i << " is " << given[i] << ", not " << expected[i];
    }
  }
};
TYPED_TEST_SUITE(HalfDenseTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfDenseTest, forward_and_gradients_agree_with_double) {
  for (auto const& [batch, inputs, outputs] : {std::array{1, 1, 1},
                                               {7, 5, 3},
                                               {64, 33, 17},
                                               {64, 32, 16},
                                               {130, 64, 1},
                                               {3, 1, 40},
                                               {2048, 8, 16},
                                               {1031, 7, 5}}) {
    for (auto const activation : {Activation::none, Activation::relu}) {
      this->template expect_dense<bfloat16>(batch, inputs, outputs, activation);
      this->template expect_dense<float16>(batch, inputs, outputs, activation);
    }
  }
}

TYPED_TEST(HalfDenseTest, a_batch_without_rows_or_inputs_has_gradients_of_zero) {
  for (auto const& [batch, inputs] : {std::array{0, 4}, {3, 0}}) {
    auto const x = this->template any<bfloat16>({batch, inputs});
    auto const w = this->template any<bfloat16>({inputs, 6});
    auto const b = this->put(rounded<bfloat16>(Floats(6, -2.0F)));
    auto const y = ops::dense(x, w, b, Activation::relu);
    EXPECT_EQ(to_doubles(to_host(y)), Doubles(static_cast<std::size_t>(batch * 6), 0.0));
    auto const gradients = ops::dense_gradient(x, w, y, Activation::none, y, true);
    EXPECT_EQ(to_host(gradients.weight), Floats(static_cast<std::size_t>(inputs * 6), 0.0F));
    EXPECT_EQ(to_host(gradients.bias), Floats(6, 0.0F));
    EXPECT_EQ(gradients.input->count(), batch * inputs);
  }
}

TYPED_TEST(HalfDenseTest, sums_are_rounded_once) {
  // In bfloat16, 256 + 1 is 256: sums that were rounded after each term would stay there.
  constexpr std::int64_t kTerms = 512;
  auto const x = this->put(rounded<bfloat16>(Floats(kTerms, 1.0F)), {1, kTerms});
  auto const w = this->put(rounded<bfloat16>(Floats(kTerms * 2, 1.0F)), {kTerms, 2});
  auto const b = this->template any<bfloat16>({2});
  EXPECT_EQ(to_doubles(to_host(ops::dense(x, w, b))), Doubles(2, 512.0));
}

TYPED_TEST(HalfDenseTest, shapes_that_do_not_fit_are_refused) {
  auto const x = this->template any<float16>({4, 3});
  auto const w = this->template any<float16>({2, 5});
  expect_refused([&] { (void)ops::dense(x, w, this->template any<float16>({5})); },
                 "dense",
                 "[4, 3]",
                 "[2, 5]");
}

TYPED_TEST(HalfDenseTest, casts_round_to_nearest_even_and_back) {
  auto const inf = std::numeric_limits<float>::infinity();
  Floats const values{0.0F,
                      -0.0F,
                      1.0F,
                      1.0F + 0x1p-8F,
                      1.0F + 0x1.8p-7F,
                      65'519.0F,
                      65'520.0F,
                      -1e30F,
                      inf,
                      0x1p-24F,
                      0x1p-26F};
  auto const x = this->put(values);
  auto const as = [&]<class T>(T) {
    Floats expected;
    for (auto const value : values) {
      expected.push_back(to_float(from_float<T>(value)));
    }
    EXPECT_EQ(to_host(ops::cast<float>(ops::cast<T>(x))), expected);
  };
  as(bfloat16{});
  as(float16{});
  EXPECT_EQ(to_host(ops::cast<float>(ops::cast<bfloat16>(x)))[3], 1.0F);  // a tie, to even
  EXPECT_EQ(to_host(ops::cast<float>(ops::cast<float16>(x)))[6], inf);
  auto const nan = this->put(Floats{std::numeric_limits<float>::quiet_NaN()});
  EXPECT_TRUE(std::isnan(to_host(ops::cast<float>(ops::cast<float16>(nan)))[0]));
}

TYPED_TEST(HalfDenseTest, casts_of_any_length_and_alignment_have_equal_bits_with_the_host) {
  for (std::int64_t const count : {0, 1, 3, 4, 2047, 2048, 2049, 10'001}) {
    auto const values = this->random.reals(count + 1, -70'000.0F, 70'000.0F);
    auto const x = this->put(values);
    for (std::int64_t const first : {0, 1}) {
      auto const half = ops::cast<float16>(x.rows(first, first + count));
      auto const bits = to_host(half);
      for (std::int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(bits[static_cast<std::size_t>(i)].bits,
                  from_float<float16>(values[static_cast<std::size_t>(first + i)]).bits)
            << count << " from " << first << ", element " << i;
      }
    }
  }
}

TYPED_TEST(HalfDenseTest, a_cast_to_the_same_type_is_the_tensor_itself) {
  auto const x = this->random_tensor({3});
  EXPECT_EQ(ops::cast<float>(x).identity(), x.identity());
}

}  // namespace
}  // namespace msstream::testing
