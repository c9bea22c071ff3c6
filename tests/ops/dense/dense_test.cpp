// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/dense.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>

namespace msstream::testing {
namespace {

using ops::Activation;

/// A matrix of doubles in row-major order.
struct Matrix {
  std::size_t rows;
  std::size_t columns;
  Doubles values;

  [[nodiscard]] double at(std::size_t row, std::size_t column) const {
    return values[row * columns + column];
  }
  [[nodiscard]] Matrix transposed() const {
    Matrix out{columns, rows, {}};
    for (std::size_t column = 0; column < columns; ++column) {
      for (std::size_t row = 0; row < rows; ++row) {
        out.values.push_back(at(row, column));
      }
    }
    return out;
  }
  friend Matrix operator*(Matrix const& left, Matrix const& right) {
    Matrix out{left.rows, right.columns, {}};
    for (std::size_t row = 0; row < left.rows; ++row) {
      for (std::size_t column = 0; column < right.columns; ++column) {
        double sum = 0;
        for (std::size_t k = 0; k < left.columns; ++k) {
          sum += left.at(row, k) * right.at(k, column);
        }
        out.values.push_back(sum);
      }
    }
    return out;
  }
};

constexpr double kTolerance = 1e-5;

template <class R>
class DenseTest : public OpsTest<R> {
 protected:
  struct Operand {
    Tensor<float, R> tensor;
    Matrix matrix;
  };
  Operand operand(std::int64_t rows, std::int64_t columns) {
    auto const values = this->random.reals(rows * columns);
    return {
        this->put(values, {rows, columns}),
        {static_cast<std::size_t>(rows), static_cast<std::size_t>(columns), to_doubles(values)}};
  }
};
TYPED_TEST_SUITE(DenseTest, Runtimes, RuntimeNames);

TYPED_TEST(DenseTest, forward_and_gradients_agree_with_double) {
  for (auto const& [batch, inputs, outputs] : {std::array{1, 1, 1},
                                               {7, 5, 3},
                                               {64, 33, 17},
                                               {130, 64, 1},
                                               {3, 1, 40},
                                               {2048, 9, 12},
                                               {1031, 7, 5}}) {
    for (auto const activation : {Activation::none, Activation::relu}) {
      SCOPED_TRACE(fmt::format("{} x {} x {}", batch, inputs, outputs));
      auto const input = this->operand(batch, inputs);
      auto const weight = this->operand(inputs, outputs);
      auto const bias = this->operand(1, outputs);
      auto const upstream = this->operand(batch, outputs);

      auto const output =
          ops::dense(input.tensor, weight.tensor, bias.tensor.reshaped({outputs}), activation);
      Matrix expected = input.matrix * weight.matrix;
      for (std::size_t i = 0; i < expected.values.size(); ++i) {
        expected.values[i] += bias.matrix.values[i % expected.columns];
        if (activation == Activation::relu) {
          expected.values[i] = std::max(expected.values[i], 0.0);
        }
      }
      expect_near(to_host(output), expected.values, kTolerance);

      // Takes the mask of relu from the computed output: near 0 the reference may differ from it in
      // sign.
      Matrix masked = upstream.matrix;
      auto const given = to_host(output);
      for (std::size_t i = 0; i < masked.values.size(); ++i) {
        if (activation == Activation::relu && given[i] <= 0) {
          masked.values[i] = 0;
        }
      }
      auto const gradients = ops::dense_gradient(
          input.tensor, weight.tensor, output, activation, upstream.tensor, true);
      auto const tolerance = kTolerance * std::sqrt(batch);
      expect_near(
          to_host(*gradients.input), (masked * weight.matrix.transposed()).values, tolerance);
      expect_near(
          to_host(gradients.weight), (input.matrix.transposed() * masked).values, tolerance);
      Matrix const ones{1, masked.rows, Doubles(masked.rows, 1.0)};
      expect_near(to_host(gradients.bias), (ones * masked).values, tolerance);
      EXPECT_FALSE(ops::dense_gradient(
                       input.tensor, weight.tensor, output, activation, upstream.tensor, false)
                       .input.has_value());
    }
  }
}

TYPED_TEST(DenseTest, stacked_layers_are_each_layer_alone) {
  constexpr std::int64_t kLayers = 3;
  for (auto const& [batch, outputs, shared] : {std::tuple{7, 1, false},
                                               {7, 4, false},
                                               {7, 1, true},
                                               {7, 4, true},
                                               {1024, 4, false},
                                               {1024, 4, true},
                                               {1031, 4, false}}) {
    SCOPED_TRACE(fmt::format("{} x {}{}", batch, outputs, shared ? ", one input" : ""));
    auto const tolerance = kTolerance * std::sqrt(batch);
    auto const input = this->random_tensor(shared ? Shape{batch, 5} : Shape{kLayers, batch, 5});
    auto const weight = this->random_tensor({kLayers, 5, outputs});
    auto const bias = this->random_tensor({kLayers, outputs});
    auto const upstream = this->random_tensor({kLayers, batch, outputs});
    auto const output = ops::dense(input, weight, bias, Activation::relu);
    ASSERT_EQ(output.shape(), (Shape{kLayers, batch, outputs}));
    auto const all = ops::dense_gradient(input, weight, output, Activation::relu, upstream, true);
    ASSERT_EQ(all.input->shape(), input.shape());
    auto const one = [](auto const& tensor, std::int64_t layer, Shape const& shape) {
      return tensor.rows(layer, layer + 1).reshaped(shape);
    };
    Doubles input_gradients(to_host(input).size() / (shared ? 1 : kLayers));
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      auto const x = shared ? input : one(input, layer, {batch, 5});
      auto const w = one(weight, layer, {5, outputs});
      auto const y = ops::dense(x, w, one(bias, layer, {outputs}), Activation::relu);
      auto const given = one(output, layer, {batch, outputs});
      expect_near(to_host(given), to_doubles(to_host(y)), tolerance);
      auto const gradients = ops::dense_gradient(
          x, w, given, Activation::relu, one(upstream, layer, {batch, outputs}), true);
      expect_near(to_host(one(all.weight, layer, {5, outputs})),
                  to_doubles(to_host(gradients.weight)),
                  tolerance);
      expect_near(
          to_host(one(all.bias, layer, {outputs})), to_doubles(to_host(gradients.bias)), tolerance);
      auto const dx = to_doubles(to_host(*gradients.input));
      if (shared) {
        std::ranges::transform(input_gradients, dx, input_gradients.begin(), std::plus<>());
      } else {
        expect_near(to_host(one(*all.input, layer, {batch, 5})), dx, tolerance);
      }
    }
    if (shared) {
      expect_near(to_host(*all.input), input_gradients, tolerance);
    }
  }
}

TYPED_TEST(DenseTest, an_empty_batch_has_zero_gradients) {
  auto const input = this->any({0, 3});
  auto const weight = this->random_tensor({3, 2});
  auto const output = ops::dense(input, weight, this->any({2}), Activation::relu);
  EXPECT_EQ(output.shape(), (Shape{0, 2}));
  auto const gradients = ops::dense_gradient(input, weight, output, Activation::relu, output, true);
  EXPECT_EQ(gradients.input->shape(), (Shape{0, 3}));
  EXPECT_THAT(to_host(gradients.weight), ::testing::Each(0.0F));
  EXPECT_THAT(to_host(gradients.bias), ::testing::Each(0.0F));
}

TYPED_TEST(DenseTest, refuses_shapes_that_do_not_fit) {
  auto const x = this->any({4, 3});
  auto const w = this->any({3, 2});
  auto const b = this->any({2});
  auto const y = this->any({4, 2});
  using T = Tensor<float, TypeParam>;
  auto const refused = [&](T const& input, T const& weight, T const& bias) {
    expect_refused([&] { (void)ops::dense(input, weight, bias); },
                   "dense",
                   input.shape(),
                   weight.shape(),
                   bias.shape());
  };
  refused(this->any({12}), w, b);
  refused(this->any({}), w, b);
  refused(x, this->any({6}), b);
  refused(x, this->any({2, 3}), b);
  refused(x, w, this->any({3}));

  auto const gradient_refused = [&](T const& input, T const& weight, T const& output, T const& dy) {
    expect_refused(
        [&] { (void)ops::dense_gradient(input, weight, output, Activation::relu, dy, true); },
        "dense_gradient",
        input.shape(),
        weight.shape(),
        output.shape(),
        dy.shape());
  };
  gradient_refused(x, w, y, this->any({2, 4}));
  gradient_refused(x, w, this->any({8}), this->any({8}));
  gradient_refused(this->any({5, 3}), w, y, y);
  gradient_refused(this->any({}), w, y, y);
  gradient_refused(x, this->any({3, 3}), y, y);
  gradient_refused(x, this->any({2, 2}), y, y);
  gradient_refused(x, this->any({6}), y, y);

  refused(this->any({2, 4, 3}), w, b);
  refused(x, this->any({2, 3, 2}), b);
  refused(this->any({5, 4, 3}), this->any({2, 3, 2}), y);
}

}  // namespace
}  // namespace msstream::testing
