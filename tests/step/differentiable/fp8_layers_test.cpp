// SPDX-License-Identifier: Apache-2.0
#include "kernels/mixed/fp8_fixture.hpp"
#include "ops/half_values.hpp"
#include "step/gradient_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/non_finite_locator.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ops::Activation;
using ops::kernels::Fp8Format;
using ops::kernels::testing::kFp8SumError;
using ops::kernels::testing::quantised_numbers;

template <class R>
class Fp8LayersTest : public GradientTest<R> {
 protected:
  using Input = Tensor<float, R>;

  [[nodiscard]] static double at(Doubles const& of, std::int64_t i) {
    return of[static_cast<std::size_t>(i)];
  }

  /// Compares the gradients of a layer with sums in double of the quantised operands.
  template <class T>
  void expect_gradients(std::int64_t batch,
                        std::int64_t inputs,
                        std::int64_t outputs,
                        Activation activation) {
    SCOPED_TRACE(fmt::format("{} x {} x {} of {}", batch, inputs, outputs, name_of(dtype_of<T>)));
    auto const x = this->put(rounded_to<T>(this->random.reals(batch * inputs)), {batch, inputs});
    auto const w = this->random_tensor({inputs, outputs});
    auto const b = this->random_tensor({outputs});
    auto const factors = this->random_tensor({batch, outputs});
    GradientTape tape(this->device());
    auto const y = ops::dense_fp8(tape, x, w, b, activation);
    auto const output = to_doubles(to_host(y));
    tape.backward(ops::sum(tape, ops::multiply(tape, ops::cast<float>(tape, y), factors)));

    auto dy = to_doubles(to_host(ops::cast<T>(factors)));
    for (std::size_t i = 0; i < dy.size(); ++i) {
      dy[i] = activation == Activation::relu && output[i] <= 0 ? 0.0 : dy[i];
    }
    auto const gradient = quantised_numbers(dy, Fp8Format::e5m2);
    auto const input = quantised_numbers(to_doubles(to_host(x)), Fp8Format::e4m3);
    auto const weight = quantised_numbers(to_doubles(to_host(w)), Fp8Format::e4m3);
    Doubles of_input;
    Doubles input_bounds;
    for (std::int64_t i = 0; i < batch * inputs; ++i) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t column = 0; column < outputs; ++column) {
        double const term =
            at(gradient, i / inputs * outputs + column) * at(weight, i % inputs * outputs + column);
        sum += term;
        magnitude += std::abs(term);
      }
      of_input.push_back(sum);
      input_bounds.push_back(rounding_bound<T>(sum, kFp8SumError * magnitude));
    }
    Doubles of_weight;
    Doubles weight_bounds;
    for (std::int64_t i = 0; i < inputs * outputs; ++i) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t row = 0; row < batch; ++row) {
        double const term =
            at(input, row * inputs + i / outputs) * at(gradient, row * outputs + i % outputs);
        sum += term;
        magnitude += std::abs(term);
      }
      of_weight.push_back(sum);
      weight_bounds.push_back(rounding_bound<float>(sum, kFp8SumError * magnitude));
    }
    Doubles of_bias;
    Doubles bias_bounds;
    for (std::int64_t column = 0; column < outputs; ++column) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t row = 0; row < batch; ++row) {
        sum += at(dy, row * outputs + column);
        magnitude += std::abs(at(dy, row * outputs + column));
      }
      of_bias.push_back(sum);
      bias_bounds.push_back(rounding_bound<float>(sum, kFloatError * magnitude));
    }
    expect_bounded(to_host(tape.gradient(x)), of_input, input_bounds);
    expect_bounded(to_host(tape.gradient(w)), of_weight, weight_bounds);
    expect_bounded(to_host(tape.gradient(b)), of_bias, bias_bounds);
  }

  /// A problem whose labels a linear function and a product of two features give.
  struct Planted {
    Input features;
    Input labels;
  };
  [[nodiscard]] Planted planted(std::int64_t batch, std::int64_t width) {
    auto const features = this->random.reals(batch * width);
    Floats labels;
    for (std::int64_t row = 0; row < batch; ++row) {
      auto const* const values = features.data() + row * width;
      labels.push_back(values[0] - values[1] + 2.0F * values[2] * values[3] > 0.0F ? 1.0F : 0.0F);
    }
    return {this->put(features, {batch, width}), this->put(labels, {batch, 1})};
  }
  /// Trains a stack and returns its losses.
  [[nodiscard]] Floats losses_of(DenseStackOptions const& options,
                                 Planted const& data,
                                 int steps) const {
    Parameters<R> parameters(this->device(), {.seed = 7});
    DenseStack<R> const stack(parameters, "top", data.features.shape()[1], {64, 32, 1}, options);
    Optimizer<R> optimizer(this->device(),
                           {.kind = ops::OptimizerKind::adam, .learning_rate = 0.01F});
    optimizer.add(parameters);
    GradientTape<R> tape(this->device());
    Floats losses;
    for (int step = 0; step < steps; ++step) {
      tape.without_gradient(data.features);
      auto const loss = ops::mean_bce_with_logits(tape, stack(tape, data.features), data.labels);
      tape.backward(loss);
      optimizer.step(tape);
      tape.clear();
      losses.push_back(to_host(loss)[0]);
    }
    return losses;
  }
};
TYPED_TEST_SUITE(Fp8LayersTest, Runtimes, RuntimeNames);

TYPED_TEST(Fp8LayersTest, gradients_are_products_of_the_quantised_operands) {
  for (auto const& [batch, inputs, outputs] :
       {std::array{32, 16, 16}, {1, 32, 48}, {37, 100, 64}, {50, 17, 33}, {300, 33, 16}}) {
    for (auto const activation : {Activation::none, Activation::relu}) {
      this->template expect_gradients<float>(batch, inputs, outputs, activation);
      this->template expect_gradients<bfloat16>(batch, inputs, outputs, activation);
      this->template expect_gradients<float16>(batch, inputs, outputs, activation);
    }
  }
}

TYPED_TEST(Fp8LayersTest, a_layer_without_a_tape_has_the_same_output) {
  for (auto const activation : {Activation::none, Activation::relu, Activation::gelu_tanh}) {
    auto const x = this->put(rounded_to<bfloat16>(this->random.reals(9 * 40)), {9, 40});
    auto const w = this->random_tensor({40, 24});
    auto const b = this->random_tensor({24});
    GradientTape tape(this->device());
    EXPECT_EQ(to_doubles(to_host(ops::dense_fp8(tape, x, w, b, activation))),
              to_doubles(to_host(ops::dense_fp8(no_tape, x, w, b, activation))));
  }
}

TYPED_TEST(Fp8LayersTest, gelu_has_the_gradient_of_its_function) {
  auto const x = this->random_tensor({20, 32});
  auto const w = this->random_tensor({32, 16});
  auto const b = this->random_tensor({16});
  auto const factors = this->random_tensor({20, 16});
  auto const gradients = [&](auto const& layer) {
    GradientTape tape(this->device());
    tape.backward(ops::sum(tape, ops::multiply(tape, layer(tape), factors)));
    return std::array{
        to_host(tape.gradient(x)), to_host(tape.gradient(w)), to_host(tape.gradient(b))};
  };
  auto const fused =
      gradients([&](auto& tape) { return ops::dense_fp8(tape, x, w, b, Activation::gelu_tanh); });
  auto const alone =
      gradients([&](auto& tape) { return ops::gelu_tanh(tape, ops::dense_fp8(tape, x, w, b)); });
  for (std::size_t i = 0; i < fused.size(); ++i) {
    expect_near(fused[i], to_doubles(alone[i]), 1e-5);
  }
}

TYPED_TEST(Fp8LayersTest, a_layer_of_few_outputs_is_a_dense_layer) {
  auto const x = this->random_tensor({20, 32});
  auto const w = this->random_tensor({32, 1});
  auto const b = this->random_tensor({1});
  auto const train = [&](auto const& layer) {
    GradientTape tape(this->device());
    tape.backward(ops::sum(tape, layer(tape)));
    return std::pair{to_host(tape.gradient(x)), to_host(tape.gradient(w))};
  };
  EXPECT_EQ(train([&](auto& tape) { return ops::dense_fp8(tape, x, w, b); }),
            train([&](auto& tape) { return ops::dense(tape, x, w, b); }));
}

TYPED_TEST(Fp8LayersTest, have_the_same_bits_in_any_number_of_groups_and_captured) {
  auto const x = this->random_tensor({70, 36});
  auto const w = this->random_tensor({36, 24});
  auto const b = this->random_tensor({24});
  auto const run = [&](GradientTape<TypeParam>& tape, StreamPool<TypeParam>& pool, int groups) {
    auto const in = ops::cast<bfloat16>(tape, x);
    std::vector<Tensor<bfloat16, TypeParam>> branches;
    for (int i = 0; i < 4; ++i) {
      StreamScope const scope(pool[i % groups], {.include_grad = true});
      branches.push_back(ops::dense_fp8(tape, in, w, b, Activation::relu));
    }
    auto const all = ops::cast<float>(tape, ops::concat(tape, branches));
    auto const loss = ops::mean(tape, ops::multiply(tape, all, all));
    tape.backward(loss);
    return loss;
  };
  auto const results = [&](GradientTape<TypeParam>& tape, Tensor<float, TypeParam> const& loss) {
    return std::array{to_host(loss),
                      to_host(tape.gradient(x)),
                      to_host(tape.gradient(w)),
                      to_host(tape.gradient(b))};
  };
  auto const eager = [&](int groups) {
    StreamPool<TypeParam> pool(this->device(), {.groups = groups});
    GradientTape<TypeParam> tape(this->device());
    auto const loss = run(tape, pool, groups);
    return results(tape, loss);
  };
  auto const one = eager(1);
  EXPECT_EQ(eager(2), one);
  EXPECT_EQ(eager(4), one);

  StreamPool<TypeParam> pool(this->device(), {.groups = 3});
  auto const loss = zeros<float>(this->device(), {});
  std::vector<Tensor<float, TypeParam>> const kept{zeros<float>(this->device(), x.shape()),
                                                   zeros<float>(this->device(), w.shape()),
                                                   zeros<float>(this->device(), b.shape())};
  CapturedStep<TypeParam> captured(this->device(), [&] {
    GradientTape<TypeParam> tape(this->device());
    copy(loss, run(tape, pool, 3));
    copy(kept[0], tape.gradient(x));
    copy(kept[1], tape.gradient(w));
    copy(kept[2], tape.gradient(b));
  });
  for (int replay = 0; replay < 2; ++replay) {
    captured.replay();
    EXPECT_EQ((std::array{to_host(loss), to_host(kept[0]), to_host(kept[1]), to_host(kept[2])}),
              one);
  }
}

TYPED_TEST(Fp8LayersTest, an_overflow_is_found_and_its_step_skipped) {
  Parameters<TypeParam> parameters(this->device(), {.seed = 3});
  DenseStack<TypeParam> const stack(
      parameters, "top", 32, {32, 16}, {.precision = Precision::fp16, .fp8_products = true});
  LossScale const scale(this->device(), {.initial = 0x1p40F});
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.1F},
                                 {.loss_scale = scale});
  optimizer.add(parameters);
  auto const x = this->random_tensor({24, 32});
  auto const weight = parameters.dense("top/0/weight", {32, 32});
  auto const before = to_host(weight);
  GradientTape tape(this->device());
  NonFiniteLocator const locator(tape);
  tape.backward(scale.scaled(tape, ops::mean(tape, stack(tape, x))));
  auto const found = locator.first();
  ASSERT_TRUE(found) << "gradients of 2^40 are infinite in float16";
  EXPECT_EQ(found->phase, NonFiniteLocator<TypeParam>::Phase::backward);
  for (float const element : to_host(tape.gradient(weight))) {
    ASSERT_TRUE(std::isnan(element)) << "every element has the overflow as a term";
  }
  optimizer.step(tape);
  EXPECT_EQ(optimizer.status().skipped, 1);
  EXPECT_EQ(to_host(weight), before);
}

TYPED_TEST(Fp8LayersTest, a_stack_learns_what_it_learns_in_bfloat16) {
  constexpr int kSteps = 60;
  auto const data = this->planted(512, 32);
  auto const bf16 = this->losses_of({.precision = Precision::bf16}, data, kSteps);
  for (auto const precision : {Precision::fp32, Precision::bf16}) {
    auto const fp8 = this->losses_of({.precision = precision, .fp8_products = true}, data, kSteps);
    EXPECT_GT(fp8.front(), 0.6F);
    EXPECT_LT(bf16.back(), 0.2F);
    EXPECT_LT(fp8.back(), bf16.back() + 0.05F);
    EXPECT_NE(fp8, bf16) << "the products were not of 8-bit floats";
    EXPECT_EQ(fp8, this->losses_of({.precision = precision, .fp8_products = true}, data, kSteps));
  }
}

}  // namespace
}  // namespace msstream::testing
