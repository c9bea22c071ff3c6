// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"

#include <msstream/ops/cross.hpp>

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <source_location>

namespace msstream::testing {
namespace {

/// A matrix of numbers, and bounds of the errors of another one that should equal it.
struct Bounded {
  Doubles values;
  Doubles bounds;
};

/// Compares each stage of a cross layer with double, from the operands that the stage has read.
template <class R>
class HalfCrossTest : public HalfTest<R> {
 protected:
  using Any = detail::AnyTensor;

  template <class T>
  [[nodiscard]] static std::vector<T> host(Any const& tensor) {
    return to_host(Tensor<T, R>(msstream::detail::OfKnownType(), tensor));
  }
  template <class T>
  [[nodiscard]] static Doubles doubles(Any const& tensor) {
    return to_doubles(host<T>(tensor));
  }

  /// Returns a · b, or a · bᵀ if `is_turned`, plus an addend of the result's shape or of one row,
  /// rounded to T once. Each element of `a` may have an error.
  template <class T>
  [[nodiscard]] static Bounded product(Bounded const& a,
                                       Doubles const& b,
                                       Doubles const& addend,
                                       std::int64_t rows,
                                       std::int64_t inner,
                                       std::int64_t columns,
                                       bool is_turned) {
    Bounded out;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        double sum = 0;
        double magnitude = 0;
        double error = 0;
        if (!addend.empty()) {
          auto const i = static_cast<std::size_t>(row * columns + column) % addend.size();
          sum = addend[i];
          magnitude = std::abs(sum);
        }
        for (std::int64_t k = 0; k < inner; ++k) {
          auto const in_a = static_cast<std::size_t>(row * inner + k);
          double const factor =
              b[static_cast<std::size_t>(is_turned ? column * inner + k : k * columns + column)];
          sum += a.values[in_a] * factor;
          magnitude += std::abs(a.values[in_a] * factor);
          error += (a.bounds.empty() ? 0.0 : a.bounds[in_a]) * std::abs(factor);
        }
        out.values.push_back(sum);
        out.bounds.push_back(rounding_bound<T>(sum, error + kFloatError * magnitude));
      }
    }
    return out;
  }
  /// Returns aᵀ · b in float32. Each element of `b` may have an error.
  [[nodiscard]] static Bounded sums_over_rows(
      Doubles const& a, Bounded const& b, std::int64_t rows, std::int64_t in_a, std::int64_t in_b) {
    Bounded out;
    for (std::int64_t i = 0; i < in_a; ++i) {
      for (std::int64_t j = 0; j < in_b; ++j) {
        double sum = 0;
        double error = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
          double const left = a[static_cast<std::size_t>(row * in_a + i)];
          auto const at = static_cast<std::size_t>(row * in_b + j);
          sum += left * b.values[at];
          error += std::abs(left) *
                   ((b.bounds.empty() ? 0.0 : b.bounds[at]) + kFloatError * std::abs(b.values[at]));
        }
        out.values.push_back(sum);
        out.bounds.push_back(error + 0x1p-100);
      }
    }
    return out;
  }
  template <class T>
  static void expect(Any const& actual, Bounded const& expected) {
    expect_bounded(host<T>(actual), expected.values, expected.bounds);
  }

  template <class T>
  void expect_layer(std::int64_t batch, std::int64_t width, std::int64_t rank) {
    SCOPED_TRACE(fmt::format("{} x {}, rank {} of {}", batch, width, rank, name_of(dtype_of<T>)));
    auto const here = std::source_location::current();
    auto const first = this->template operand<T>({batch, width});
    auto const input = this->template operand<T>({batch, width});
    auto const dy = this->template operand<T>({batch, width});
    ops::CrossWeights<R> const weights{this->random_tensor({width, rank}),
                                       this->random_tensor({rank, width}),
                                       this->random_tensor({width})};
    auto const layer =
        ops::detail::cross_layer(first.tensor.any(), input.tensor.any(), weights, here);
    auto const down = doubles<T>(layer.down);
    auto const up = doubles<T>(layer.up);
    auto const bias = doubles<T>(layer.bias);
    EXPECT_EQ(up, to_doubles(rounded_to<T>(to_host(weights.up))));

    expect<T>(layer.hidden, product<T>({input.values, {}}, down, {}, batch, width, rank, false));
    auto const hidden = doubles<T>(layer.hidden);
    expect<T>(layer.projected, product<T>({hidden, {}}, up, bias, batch, rank, width, false));
    auto const projected = doubles<T>(layer.projected);
    Bounded output;
    Bounded first_gradient;
    Doubles projected_gradient;
    Doubles products;  // The gradient of the bias adds up what is not rounded yet.
    for (std::size_t i = 0; i < projected.size(); ++i) {
      double const crossed = first.values[i] * projected[i];
      output.values.push_back(crossed + input.values[i]);
      output.bounds.push_back(rounding_bound<T>(
          output.values[i], 0x1p-23 * (std::abs(crossed) + std::abs(input.values[i]))));
      first_gradient.values.push_back(dy.values[i] * projected[i]);
      first_gradient.bounds.push_back(rounding_bound<T>(first_gradient.values[i], 0.0));
      // Products of two numbers of half precision are exact in float32.
      products.push_back(dy.values[i] * first.values[i]);
      projected_gradient.push_back(to_float(from_float<T>(static_cast<float>(products[i]))));
    }
    expect<T>(layer.output, output);

    auto const gradients = ops::detail::cross_layer_gradient(
        first.tensor.any(), input.tensor.any(), layer, dy.tensor.any(), here);
    expect<T>(gradients.first, first_gradient);
    auto const hidden_gradient =
        product<T>({projected_gradient, {}}, up, {}, batch, width, rank, true);
    expect<T>(gradients.input,
              product<T>(hidden_gradient, down, dy.values, batch, rank, width, true));
    expect<float>(gradients.weights.up.any(),
                  sums_over_rows(hidden, {projected_gradient, {}}, batch, rank, width));
    expect<float>(gradients.weights.down.any(),
                  sums_over_rows(input.values, hidden_gradient, batch, width, rank));
    Doubles const ones(static_cast<std::size_t>(batch), 1.0);
    expect<float>(gradients.weights.bias.any(),
                  sums_over_rows(ones, {products, {}}, batch, 1, width));
  }
};
TYPED_TEST_SUITE(HalfCrossTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfCrossTest, stages_and_gradients_of_a_layer_agree_with_double) {
  for (auto const& [batch, width, rank] : {std::array{1, 1, 1},
                                           {5, 3, 2},
                                           {33, 16, 8},
                                           {7, 45, 13},
                                           {130, 6, 1},
                                           {2, 257, 31},
                                           {0, 4, 2}}) {
    this->template expect_layer<float>(batch, width, rank);
    this->template expect_layer<float16>(batch, width, rank);
    this->template expect_layer<bfloat16>(batch, width, rank);
  }
}

}  // namespace
}  // namespace msstream::testing
