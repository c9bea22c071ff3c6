// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameters.hpp>

#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class LossScaleTest : public OpsTest<R> {
 protected:
  using Values = Tensor<float, R>;

  /// Trains w by `steps` steps of the loss mean((x w - y)²), and returns w.
  Floats trained(std::optional<LossScale<R>> const& scale,
                 ops::OptimizerRule const& rule,
                 int steps,
                 OptimizerOptions options = {}) {
    auto const w = this->put(Floats(6 * 4, 0.25F), {6, 4});
    auto const b = zeros<float>(this->device(), {4});
    if (scale) {
      options.loss_scale = *scale;
    }
    Optimizer optimizer(this->device(), rule, options);
    optimizer.add("w", w);
    optimizer.add("b", b);
    GradientTape tape(this->device());
    for (int i = 0; i < steps; ++i) {
      tape.without_gradient(x());
      auto const loss = ops::mse_loss(tape, ops::dense(tape, x(), w, b), y());
      tape.backward(scale ? scale->scaled(tape, loss) : loss);
      optimizer.step(tape);
      tape.clear();
    }
    return to_host(w);
  }
  Values const& x() {
    if (!x_) {
      x_ = this->random_tensor({8, 6});
      y_ = this->random_tensor({8, 4});
    }
    return *x_;
  }
  Values const& y() {
    (void)x();
    return *y_;
  }
  /// A step with a gradient that the test chooses.
  void step_by(LossScale<R> const& scale,
               Optimizer<R>& optimizer,
               Values const& w,
               float gradient) {
    GradientTape tape(this->device());
    auto const loss = zeros<float>(this->device(), {});
    tape.record("loss", loss, [&, gradient](auto& playing, auto const&) {
      playing.add_gradient(w, this->put(Floats(4, gradient), {4}));
    });
    tape.backward(scale.scaled(tape, loss));
    optimizer.step(tape);
  }

 private:
  std::optional<Values> x_;
  std::optional<Values> y_;
};
TYPED_TEST_SUITE(LossScaleTest, Runtimes, RuntimeNames);

TYPED_TEST(LossScaleTest, a_power_of_two_changes_no_bit_of_an_update) {
  LossScale const scale(this->device(), {.initial = 1024.0F, .interval = 3});
  for (auto const kind :
       {ops::OptimizerKind::sgd, ops::OptimizerKind::adagrad, ops::OptimizerKind::adam}) {
    ops::OptimizerRule const rule{.kind = kind, .learning_rate = 0.05F, .clip_value = 0.3F};
    EXPECT_EQ(this->trained(scale, rule, 10), this->trained({}, rule, 10));
    OptimizerOptions const clipped{.clip_norm = 0.1F};
    EXPECT_EQ(this->trained(scale, rule, 10, clipped), this->trained({}, rule, 10, clipped));
  }
  EXPECT_GT(scale.value(), 1024.0F) << "the scale has grown meanwhile";
}

TYPED_TEST(LossScaleTest, an_overflow_skips_the_step_and_backs_off) {
  LossScale const scale(this->device(),
                        {.initial = 64.0F, .growth = 4.0F, .backoff = 0.25F, .interval = 2});
  auto const w = this->put(Floats(4, 1.0F), {4});
  Optimizer optimizer(this->device(),
                      {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F},
                      {.loss_scale = scale});
  optimizer.add("w", w);
  auto const inf = std::numeric_limits<float>::infinity();
  for (float const bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    auto const before = scale.value();
    this->step_by(scale, optimizer, w, bad);
    EXPECT_EQ(to_host(w), Floats(4, 1.0F));
    EXPECT_EQ(scale.value(), before / 4);
  }
  EXPECT_EQ(optimizer.status().skipped, 3);
  this->step_by(scale, optimizer, w, 0.5F);  // the scale is 1
  EXPECT_EQ(to_host(w), Floats(4, 0.5F));
  EXPECT_EQ(scale.value(), 1.0F);
  this->step_by(scale, optimizer, w, 0.0F);  // the second good step in a row
  EXPECT_EQ(scale.value(), 4.0F);
  this->step_by(scale, optimizer, w, 2.0F);  // divided by 4
  EXPECT_EQ(to_host(w), Floats(4, 0.0F));
  this->step_by(scale, optimizer, w, inf);
  EXPECT_EQ(scale.value(), 1.0F);
  this->step_by(scale, optimizer, w, 0.0F);
  EXPECT_EQ(scale.value(), 1.0F) << "an overflow begins the count anew";
}

TYPED_TEST(LossScaleTest, a_fixed_scale_stays) {
  LossScale const scale(this->device(), LossScaleOptions::fixed(8.0F));
  auto const w = this->put(Floats(4, 1.0F), {4});
  Optimizer optimizer(this->device(),
                      {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F},
                      {.loss_scale = scale});
  optimizer.add("w", w);
  this->step_by(scale, optimizer, w, std::numeric_limits<float>::infinity());
  this->step_by(scale, optimizer, w, 4.0F);
  EXPECT_EQ(to_host(w), Floats(4, 0.5F));
  EXPECT_EQ(scale.value(), 8.0F);
}

TYPED_TEST(LossScaleTest, replays_change_the_scale) {
  LossScale const scale(this->device(), {.initial = 2.0F, .interval = 2});
  auto const w = this->put(Floats(4, 1.0F), {4});
  auto const factor = this->put(Floats(4, 1.0F), {4});
  Optimizer optimizer(this->device(),
                      {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.0F},
                      {.loss_scale = scale});
  optimizer.add("w", w);
  GradientTape tape(this->device());
  auto const train = [&] {
    tape.without_gradient(factor);
    tape.backward(scale.scaled(tape, ops::sum(tape, ops::multiply(tape, w, factor))));
    optimizer.step(tape);
    tape.clear();
  };
  train();
  CapturedStep<TypeParam> captured(this->device(), train);
  EXPECT_EQ(scale.value(), 2.0F) << "a capture runs nothing";
  captured.replay();
  EXPECT_EQ(scale.value(), 4.0F);
  copy(factor, this->put(Floats(4, std::numeric_limits<float>::infinity()), {4}));
  captured.replay();
  EXPECT_EQ(scale.value(), 2.0F);
}

TYPED_TEST(LossScaleTest, small_gradients_survive_in_float16_with_a_scale_alone) {
  auto const gradient_of = [&](bool scales) {
    LossScale const scale(this->device(), LossScaleOptions::fixed(65'536.0F));
    auto const x = this->put(Floats(8, 1.0F), {8});
    GradientTape tape(this->device());
    auto const half = ops::cast<float16>(tape, x);
    auto const tiny = ops::scale(tape, ops::cast<float>(tape, half), 0x1p-30F);
    auto const loss = ops::sum(tape, tiny);
    tape.backward(scales ? scale.scaled(tape, loss) : loss);
    return to_host(tape.gradient(x));
  };
  EXPECT_EQ(gradient_of(false), Floats(8, 0.0F));
  EXPECT_EQ(gradient_of(true), Floats(8, 0x1p-14F));
}

TYPED_TEST(LossScaleTest, a_loss_that_the_scale_of_the_optimizer_has_not_scaled_is_refused) {
  LossScale const scale(this->device());
  LossScale const other(this->device());
  auto const w = this->put(Floats(4, 1.0F), {4});
  auto const step = [&](OptimizerOptions const& options, LossScale<TypeParam> const* by) {
    Optimizer optimizer(
        this->device(), {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F}, options);
    optimizer.add("w", w);
    GradientTape tape(this->device());
    auto const loss = ops::sum(tape, ops::multiply(tape, w, w));
    tape.backward(by == nullptr ? loss : by->scaled(tape, loss));
    optimizer.step(tape);
  };
  auto const message = [&](OptimizerOptions const& options, LossScale<TypeParam> const* by) {
    return message_of<std::logic_error>([&] { step(options, by); });
  };
  EXPECT_THAT(message({.loss_scale = scale}, nullptr), ::testing::HasSubstr("was not scaled"));
  EXPECT_THAT(message({}, &scale), ::testing::HasSubstr("gradients of a scaled loss"));
  EXPECT_THAT(message({.loss_scale = scale}, &other), ::testing::HasSubstr("another LossScale"));
  EXPECT_EQ(to_host(w), Floats(4, 1.0F)) << "nothing has moved";
  EXPECT_EQ(scale.value(), 65'536.0F);
  step({.loss_scale = scale}, &scale);
  EXPECT_EQ(to_host(w), Floats(4, -1.0F));
}

TYPED_TEST(LossScaleTest, losses_of_one_step_that_have_not_all_the_same_scale_are_refused) {
  using Scale = LossScale<TypeParam> const*;
  LossScale const scale(this->device());
  LossScale const other(this->device());
  auto const w = this->put(Floats(4, 1.0F), {4});
  auto const step = [&](OptimizerOptions const& options, std::vector<Scale> const& scales) {
    Optimizer optimizer(
        this->device(), {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F}, options);
    optimizer.add("w", w);
    GradientTape tape(this->device());
    for (Scale const by : scales) {
      auto const loss = ops::sum(tape, ops::multiply(tape, w, w));
      tape.backward(by == nullptr ? loss : by->scaled(tape, loss));
      if (options.micro_batches > 1) {
        optimizer.step(tape);
      }
    }
    if (options.micro_batches == 1) {
      optimizer.step(tape);
    }
  };
  auto const is_refused = [&](OptimizerOptions const& options, std::vector<Scale> const& scales) {
    EXPECT_THAT(message_of<std::logic_error>([&] { step(options, scales); }),
                ::testing::HasSubstr("not all have the same LossScale"));
    EXPECT_EQ(to_host(w), Floats(4, 1.0F)) << "something has moved";
    EXPECT_EQ(scale.value(), 65'536.0F);
  };
  for (auto const& mixed : {std::vector<Scale>{&scale, nullptr},
                            std::vector<Scale>{nullptr, &scale},
                            std::vector<Scale>{&scale, &other},
                            std::vector<Scale>{&other, &scale},
                            std::vector<Scale>{&scale, nullptr, &scale}}) {
    is_refused({.loss_scale = scale}, mixed);
    is_refused({.loss_scale = scale, .micro_batches = std::ssize(mixed)}, mixed);
    is_refused({}, mixed);
  }
  step({.loss_scale = scale}, {&scale, &scale});
  EXPECT_EQ(to_host(w), Floats(4, -3.0F));
}

TYPED_TEST(LossScaleTest, a_sum_of_losses_of_two_scales_is_refused) {
  LossScale const scale(this->device());
  LossScale const other(this->device());
  auto const w = this->put(Floats(4, 1.0F), {4});
  Optimizer optimizer(this->device(),
                      {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F},
                      {.loss_scale = scale});
  optimizer.add("w", w);
  GradientTape tape(this->device());
  auto const step = [&](LossScale<TypeParam> const& left, LossScale<TypeParam> const& right) {
    auto const loss = ops::sum(tape, ops::multiply(tape, w, w));
    tape.backward(ops::add(tape, left.scaled(tape, loss), right.scaled(tape, loss)));
    optimizer.step(tape);
  };
  EXPECT_THROW(step(scale, other), std::logic_error);
  tape.clear();
  EXPECT_THROW(step(other, scale), std::logic_error);
  tape.clear();
  EXPECT_EQ(to_host(w), Floats(4, 1.0F)) << "nothing has moved";
  step(scale, scale);
  EXPECT_EQ(to_host(w), Floats(4, -3.0F));
}

TYPED_TEST(LossScaleTest, a_scale_has_one_optimizer_at_a_time) {
  LossScale const scale(this->device());
  ops::OptimizerRule const rule{.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F};
  {
    Optimizer const first(this->device(), rule, {.loss_scale = scale});
    EXPECT_THAT(message_of<std::logic_error>(
                    [&] { Optimizer(this->device(), rule, {.loss_scale = scale}); }),
                ::testing::HasSubstr("two optimizers"));
  }
  Optimizer const second(this->device(), rule, {.loss_scale = scale});
}

TYPED_TEST(LossScaleTest, options_out_of_range_are_refused) {
  auto const refused = [&](LossScaleOptions const& options, char const* word) {
    expect_refused([&] { LossScale const scale(this->device(), options); }, "LossScale", word);
  };
  refused({.initial = 0.0F}, "initial scale of 0");
  refused({.initial = std::numeric_limits<float>::infinity()}, "initial scale of inf");
  refused({.initial = 1e35F}, "[2^-100, 2^100]");
  refused({.growth = 0.5F}, "growth of 0.5");
  refused({.backoff = 0.0F}, "backoff of 0");
  refused({.backoff = 1.5F}, "backoff of 1.5");
  refused({.interval = 0}, "interval of 0");
  LossScale const scale(this->device());
  GradientTape tape(this->device());
  expect_refused([&] { (void)scale.scaled(tape, this->random_tensor({2})); }, "shape [2]");
}

TYPED_TEST(LossScaleTest, a_stack_computes_in_the_precision_of_its_options) {
  auto const x = this->random_tensor({16, 12});
  auto const of = [&](Precision precision, LayerActivation activation, bool norm) {
    Parameters parameters(this->device(), {.seed = 3});
    DenseStack const stack(parameters,
                           "stack",
                           12,
                           {16, 8, 4},
                           {.activation = activation, .batch_norm = norm, .precision = precision});
    return to_host(stack(no_tape, x));
  };
  for (bool const norm : {false, true}) {
    for (LayerActivation const activation : {LayerActivation(ops::Activation::relu),
                                             LayerActivation(SmoothActivation::gelu),
                                             LayerActivation(TrainedActivation::prelu)}) {
      auto const exact = of(Precision::fp32, activation, norm);
      for (auto const& [precision, tolerance] :
           {std::pair(Precision::bf16, 0.05), std::pair(Precision::fp16, 0.01)}) {
        auto const half = of(precision, activation, norm);
        EXPECT_NE(half, exact) << "the stack was not computed in half precision";
        expect_near(half, to_doubles(exact), tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace msstream::testing
