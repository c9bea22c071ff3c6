// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"
#include "step/gradient_fixture.hpp"

#include <msstream/ops/attention.hpp>
#include <msstream/ops/interaction.hpp>
#include <msstream/ops/layer_norm.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <array>
#include <cmath>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class HalfLayersTest : public GradientTest<R> {
 protected:
  template <class T>
  [[nodiscard]] Tensor<T, R> halves(Shape const& shape) {
    return this->put(rounded_to<T>(this->random.reals(shape.count(), -2.0F, 2.0F)), shape);
  }
  /// Makes `gradient` the gradient of a result of half precision.
  template <class T>
  static void play_back(GradientTape<R>& tape,
                        Tensor<T, R> const& result,
                        Tensor<T, R> const& gradient) {
    auto const wide = ops::cast<float>(gradient);
    tape.backward(ops::sum(tape, ops::multiply(tape, ops::cast<float>(tape, result), wide)));
  }
  template <class T>
  [[nodiscard]] static Doubles values_of(Tensor<T, R> const& tensor) {
    return to_doubles(to_host(tensor));
  }
  /// Calls test(T()) for both types of half precision.
  template <class Test>
  static void for_both(Test const& test) {
    test(bfloat16{});
    test(float16{});
  }
};
TYPED_TEST_SUITE(HalfLayersTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfLayersTest, a_layer_norm_has_the_gradients_of_its_operation) {
  this->for_both([&]<class T>(T) {
    auto const x = this->template halves<T>({6, 9});
    auto const dy = this->template halves<T>({6, 9});
    auto const weight = this->random_tensor({9});
    auto const bias = this->random_tensor({9});
    GradientTape tape(this->device());
    auto const y = ops::layer_norm(tape, x, weight, bias);
    auto const result = ops::layer_norm(x, weight, bias);
    EXPECT_EQ(this->values_of(y), this->values_of(result.output));
    EXPECT_EQ(this->values_of(ops::layer_norm(no_tape, x, weight, bias)), this->values_of(y));
    this->play_back(tape, y, dy);
    auto const gradients = ops::layer_norm_gradient(x, weight, result, dy);
    EXPECT_EQ(this->values_of(tape.gradient(x)), this->values_of(*gradients.input));
    EXPECT_EQ(to_host(tape.gradient(weight)), to_host(*gradients.weight));
    EXPECT_EQ(to_host(tape.gradient(bias)), to_host(*gradients.bias));
  });
}

TYPED_TEST(HalfLayersTest, a_matrix_product_has_the_gradients_of_its_operation) {
  this->for_both([&]<class T>(T) {
    auto const left = this->template halves<T>({3, 4, 5});
    auto const right = this->template halves<T>({6, 5});
    auto const dy = this->template halves<T>({3, 4, 6});
    ops::MatmulOptions const options{.transpose_right = true, .factor = 0.5F};
    GradientTape tape(this->device());
    auto const y = ops::matmul(tape, left, right, options);
    EXPECT_EQ(this->values_of(y), this->values_of(ops::matmul(left, right, options)));
    EXPECT_EQ(this->values_of(ops::matmul(no_tape, left, right, options)), this->values_of(y));
    this->play_back(tape, y, dy);
    EXPECT_EQ(this->values_of(tape.gradient(left)),
              this->values_of(ops::matmul_left_gradient(left, right, options, dy)));
    EXPECT_EQ(this->values_of(tape.gradient(right)),
              this->values_of(ops::matmul_right_gradient(left, right, options, dy)));
  });
}

TYPED_TEST(HalfLayersTest, attention_has_the_gradients_of_its_operations) {
  this->for_both([&]<class T>(T) {
    auto const q = this->template halves<T>({2, 3, 4});
    auto const k = this->template halves<T>({2, 5, 4});
    auto const v = this->template halves<T>({2, 5, 6});
    auto const dy = this->template halves<T>({2, 3, 6});
    ops::AttentionOptions<TypeParam> const options{.lengths = this->put(Integers{4, 5})};
    GradientTape tape(this->device());
    auto const y = ops::attention(tape, q, k, v, options);
    EXPECT_EQ(this->values_of(y), this->values_of(ops::attention(q, k, v, options)));
    EXPECT_EQ(this->values_of(ops::attention(no_tape, q, k, v, options)), this->values_of(y));
    this->play_back(tape, y, dy);
    auto const scores = ops::attention_scores(q, k, options);
    auto const of_scores = ops::matmul_left_gradient(scores, v, {}, dy);
    auto const gradients = ops::attention_scores_gradient(q, k, scores, of_scores, options);
    EXPECT_EQ(this->values_of(tape.gradient(q)), this->values_of(*gradients.left));
    EXPECT_EQ(this->values_of(tape.gradient(k)), this->values_of(*gradients.right));
    EXPECT_EQ(this->values_of(tape.gradient(v)),
              this->values_of(ops::matmul_right_gradient(scores, v, {}, dy)));
  });
}

TYPED_TEST(HalfLayersTest, a_factorization_machine_has_the_gradient_of_its_operation) {
  this->for_both([&]<class T>(T) {
    auto const x = this->template halves<T>({5, 4, 3});
    auto const dy = this->template halves<T>({5, 1});
    GradientTape tape(this->device());
    auto const y = ops::factorization_machine(tape, x);
    EXPECT_EQ(this->values_of(y), this->values_of(ops::factorization_machine(x)));
    EXPECT_EQ(this->values_of(ops::factorization_machine(no_tape, x)), this->values_of(y));
    this->play_back(tape, y, dy);
    EXPECT_EQ(this->values_of(tape.gradient(x)),
              this->values_of(ops::factorization_machine_gradient(x, dy)));
  });
}

TYPED_TEST(HalfLayersTest, a_factorization_machine_agrees_with_central_differences) {
  this->expect_gradient(
      {3, 4, 5},
      [](auto& tape, auto const& x) { return ops::factorization_machine(tape, x); },
      [](Doubles const& x) {
        Doubles terms;
        for (std::size_t sample = 0; sample < 3; ++sample) {
          double term = 0;
          for (std::size_t i = 0; i < 4; ++i) {
            for (std::size_t j = 0; j < i; ++j) {
              for (std::size_t c = 0; c < 5; ++c) {
                term += x[(sample * 4 + i) * 5 + c] * x[(sample * 4 + j) * 5 + c];
              }
            }
          }
          terms.push_back(term);
        }
        return terms;
      });
}

TYPED_TEST(HalfLayersTest, losses_of_half_precision_are_those_of_the_widened_logits) {
  this->for_both([&]<class T>(T) {
    auto const compare = [&](auto const& loss_of, Shape const& shape) {
      auto const x = this->template halves<T>(shape);
      auto const other = this->template halves<T>(shape);
      auto const wide = ops::cast<float>(x);
      auto const wide_other = ops::cast<float>(other);
      GradientTape tape(this->device());
      auto const loss = loss_of(tape, x, other);
      tape.backward(loss);
      GradientTape wide_tape(this->device());
      auto const wide_loss = loss_of(wide_tape, wide, wide_other);
      wide_tape.backward(wide_loss);
      expect_near(to_host(loss), to_doubles(to_host(wide_loss)));
      expect_near(to_host(loss_of(no_tape, x, other)), to_doubles(to_host(wide_loss)));
      auto const exact = to_doubles(to_host(wide_tape.gradient(wide)));
      Doubles magnitudes;
      for (auto const value : exact) {
        magnitudes.push_back(std::abs(value) / 8);
      }
      expect_rounded_once(to_host(tape.gradient(x)), exact, magnitudes);
    };
    auto const labels = this->put(this->random.reals(20, 0.0F, 1.0F), {5, 4});
    auto const weights = this->put(this->random.reals(5, 0.5F, 1.0F), {5});
    auto const classes = this->put(Integers{0, 3, 1, 2, 2});
    auto const each = this->random_tensor({5, 4});
    auto const of_rows = this->random_tensor({5});
    ops::LossOptions<TypeParam> const weighted{.weight = weights,
                                               .reduction = ops::LossReduction::weighted_mean};
    compare(
        [&](auto& tape, auto const& x, auto const&) {
          return ops::mean_bce_with_logits(tape, x, labels, weighted);
        },
        {5, 4});
    compare(
        [&](auto& tape, auto const& x, auto const&) {
          auto const losses = ops::bce_with_logits(tape, x, labels);
          return ops::sum(tape, ops::multiply(tape, losses, each));
        },
        {5, 4});
    compare([&](auto& tape, auto const& x, auto const&) { return ops::mse_loss(tape, x, labels); },
            {5, 4});
    compare(
        [&](auto& tape, auto const& x, auto const&) {
          return ops::hinge_loss(tape, x, labels, 0.5F, weighted);
        },
        {5, 4});
    compare(
        [&](auto& tape, auto const& x, auto const& other) { return ops::bpr_loss(tape, x, other); },
        {5, 4});
    compare(
        [&](auto& tape, auto const& x, auto const& other) {
          return ops::margin_ranking_loss(tape, x, other, 0.25F);
        },
        {5, 4});
    compare(
        [&](auto& tape, auto const& x, auto const&) {
          return ops::mean_softmax_cross_entropy(tape, x, classes);
        },
        {5, 4});
    compare(
        [&](auto& tape, auto const& x, auto const&) {
          auto const losses = ops::softmax_cross_entropy(tape, x, classes);
          return ops::sum(tape, ops::multiply(tape, losses, of_rows));
        },
        {5, 4});
  });
}

TYPED_TEST(HalfLayersTest, targets_of_a_squared_error_get_a_gradient_of_their_own) {
  auto const x = this->template halves<bfloat16>({6});
  auto const t = this->random_tensor({6});
  GradientTape tape(this->device());
  tape.backward(ops::mse_loss(tape, x, ops::scale(tape, t, 1.0F)));
  auto const values = this->values_of(x);
  auto const targets = to_doubles(to_host(t));
  Doubles of_targets;
  Doubles of_x;
  for (std::size_t i = 0; i < 6; ++i) {
    of_targets.push_back((targets[i] - values[i]) / 3);
    of_x.push_back((values[i] - targets[i]) / 3);
  }
  expect_near(to_host(tape.gradient(t)), of_targets);
  expect_rounded_once(to_host(tape.gradient(x)), of_x, Doubles(6, 1.0));
}

TYPED_TEST(HalfLayersTest, small_gradients_of_a_loss_survive_in_float16_with_a_loss_scale) {
  // The derivative of a logit of -17 is about 4e-8, which float16 rounds to 2^-24 or less; the
  // scale multiplies it before it is rounded.
  auto const x = this->put(rounded_to<float16>(Floats{-17.0F}));
  auto const zero = this->put(Floats{0.0F});
  GradientTape tape(this->device());
  tape.backward(ops::scale(tape, ops::mean_bce_with_logits(tape, x, zero), 0x1p20F));
  double const expected = 0x1p20 / (1 + std::exp(17.0));
  EXPECT_NEAR(this->values_of(tape.gradient(x))[0], expected, 0x1p-10 * expected);
}

TYPED_TEST(HalfLayersTest, have_the_same_bits_in_any_number_of_groups) {
  auto const x = this->random_tensor({6, 5, 8});
  auto const weight = this->random_tensor({8});
  auto const labels = this->put(this->random.reals(24, 0.0F, 1.0F), {6, 4});
  auto const train = [&]<class T>(T, int groups) {
    StreamPool pool(this->device(), {.groups = groups});
    GradientTape tape(this->device());
    auto const in = ops::cast<T>(tape, x);
    std::vector<Tensor<T, TypeParam>> branches;
    for (int i = 0; i < 4; ++i) {
      StreamScope const scope(pool[i % groups], {.include_grad = true});
      auto const normal = ops::layer_norm(tape, in, weight, weight);
      auto const mixed = ops::attention(tape, normal, in, normal);
      branches.push_back(ops::factorization_machine(
          tape, ops::matmul(tape, mixed, in, {.transpose_right = true})));
    }
    auto const logits = ops::concat(tape, branches);
    tape.backward(ops::mean_bce_with_logits(tape, logits, labels));
    return std::pair{to_host(tape.gradient(x)), to_host(tape.gradient(weight))};
  };
  this->for_both([&](auto type) {
    auto const one = train(type, 1);
    EXPECT_EQ(train(type, 3), one);
    EXPECT_EQ(train(type, 4), one);
  });
}

}  // namespace
}  // namespace msstream::testing
