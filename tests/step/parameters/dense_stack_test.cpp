// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/dense_stack.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class DenseStackTest : public GradientTest<R> {};
TYPED_TEST_SUITE(DenseStackTest, Runtimes, RuntimeNames);

TYPED_TEST(DenseStackTest, a_layer_is_dense_then_norm_then_activation_then_dropout) {
  for (LayerActivation const activation : {LayerActivation(ops::Activation::relu),
                                           LayerActivation(ops::Activation::none),
                                           LayerActivation(SmoothActivation::gelu),
                                           LayerActivation(ops::Activation::gelu_tanh),
                                           LayerActivation(SmoothActivation::silu),
                                           LayerActivation(SmoothActivation::tanh),
                                           LayerActivation(TrainedActivation::prelu),
                                           LayerActivation(TrainedActivation::dice)}) {
    for (bool const norm : {false, true}) {
      Parameters<TypeParam> parameters(this->device(), {.seed = 5});
      Parameters<TypeParam> alone(this->device(), {.seed = 5});
      RandomGenerator<TypeParam> random(this->device(), {.seed = 9});
      RandomGenerator<TypeParam> again(this->device(), {.seed = 9});
      DenseStack<TypeParam> const stack(parameters,
                                        "s",
                                        3,
                                        {5, 2},
                                        {.activation = activation,
                                         .last = TrainedActivation::prelu,
                                         .batch_norm = norm,
                                         .dropout = 0.4F,
                                         .random = random});
      auto const x = this->put(this->random.reals(7 * 3), {7, 3});
      // The layers by hand. Their parameters have the names of the stack's.
      auto const by_hand = [&](auto& tape) {
        auto h = ops::dense(tape,
                            x,
                            alone.dense("s/0/weight", {3, 5}),
                            alone.dense("s/0/bias", {5}, init::zeros()));
        if (norm) {
          h = ops::batch_norm(tape,
                              h,
                              alone.dense("s/0/norm/weight", {5}, init::ones()),
                              alone.dense("s/0/norm/bias", {5}, init::zeros()),
                              {alone.buffer("s/0/norm/mean", {5}),
                               alone.buffer("s/0/norm/variance", {5}, init::ones())});
        }
        if (activation == LayerActivation(ops::Activation::relu)) {
          h = ops::relu(tape, h);
        } else if (activation == LayerActivation(SmoothActivation::gelu)) {
          h = ops::gelu(tape, h);
        } else if (activation == LayerActivation(ops::Activation::gelu_tanh)) {
          h = ops::gelu_tanh(tape, h);
        } else if (activation == LayerActivation(SmoothActivation::silu)) {
          h = ops::silu(tape, h);
        } else if (activation == LayerActivation(SmoothActivation::tanh)) {
          h = ops::tanh(tape, h);
        } else if (activation == LayerActivation(TrainedActivation::prelu)) {
          h = ops::prelu(tape, h, alone.dense("s/0/prelu/weight", {5}, init::constant(0.25F)));
        } else if (activation == LayerActivation(TrainedActivation::dice)) {
          h = ops::dice(tape,
                        h,
                        alone.dense("s/0/dice/weight", {5}, init::zeros()),
                        {alone.buffer("s/0/dice/mean", {5}),
                         alone.buffer("s/0/dice/variance", {5}, init::ones())});
        }
        h = ops::dropout(tape, h, {.rate = 0.4F}, again, "s/0");
        h = ops::dense(tape,
                       h,
                       alone.dense("s/1/weight", {5, 2}),
                       alone.dense("s/1/bias", {2}, init::zeros()));
        return ops::prelu(tape, h, alone.dense("s/1/prelu/weight", {2}, init::constant(0.25F)));
      };
      auto const labels = this->put(this->random.reals(14, 0.0F, 1.0F), {7, 2});
      GradientTape tape(this->device());
      auto const output = stack(tape, x);
      auto const expected = by_hand(tape);
      expect_near(to_host(output), to_doubles(to_host(expected)));
      tape.backward(ops::mean_bce_with_logits(tape, output, labels));
      for (auto const& entry : parameters.entries()) {
        ASSERT_TRUE(alone.contains(entry.name)) << entry.name;
        if (entry.kind != Parameters<TypeParam>::Kind::dense) {
          // The statistics have moved alike.
          expect_near(to_host(parameters.find(entry.name)),
                      to_doubles(to_host(alone.find(entry.name))));
        }
      }
      EXPECT_EQ(parameters.entries().size(), alone.entries().size());
      GradientTape other(this->device());
      again.advance();
      random.advance();
      auto const own = stack(other, x);
      auto const hand = by_hand(other);
      other.backward(ops::add(other, std::vector{ops::sum(other, own), ops::sum(other, hand)}));
      for (auto const& entry : parameters.entries()) {
        if (entry.kind == Parameters<TypeParam>::Kind::dense) {
          expect_near(to_host(other.gradient(parameters.find(entry.name))),
                      to_doubles(to_host(other.gradient(alone.find(entry.name)))),
                      1e-4);
        }
      }
      // Evaluation drops nothing, and changes no statistics.
      auto const evaluated = to_host(stack(no_tape, x));
      expect_near(evaluated, to_doubles(to_host(by_hand(no_tape))));
      EXPECT_EQ(to_host(stack(no_tape, x)), evaluated);
    }
  }
}

TYPED_TEST(DenseStackTest, gelu_has_the_same_bits_with_and_without_a_tape_in_each_precision) {
  for (auto const precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Parameters<TypeParam> parameters(this->device(), {.seed = 5});
    DenseStack<TypeParam> const stack(parameters,
                                      "s",
                                      9,
                                      {16, 7, 24, 3},
                                      {.activation = ops::Activation::gelu_tanh,
                                       .last = ops::Activation::gelu_tanh,
                                       .precision = precision});
    auto const x = this->put(this->random.reals(33 * 9), {33, 9});
    GradientTape tape(this->device());
    auto const output = stack(tape, x);
    EXPECT_EQ(to_host(output), to_host(stack(no_tape, x)));

    if (precision != Precision::fp32) {
      continue;
    }
    // The gradients are those of layers whose activation is an operation of its own.
    tape.backward(ops::sum(tape, ops::multiply(tape, output, output)));
    GradientTape other(this->device());
    auto h = x;
    for (char const* const layer : {"s/0", "s/1", "s/2", "s/3"}) {
      std::string const name(layer);
      h = ops::gelu_tanh(
          other,
          ops::dense(other, h, parameters.find(name + "/weight"), parameters.find(name + "/bias")));
    }
    other.backward(ops::sum(other, ops::multiply(other, h, h)));
    for (auto const& entry : parameters.entries()) {
      auto const weight = parameters.find(entry.name);
      expect_near(
          to_host(tape.gradient(weight)), to_doubles(to_host(other.gradient(weight))), 1e-4);
    }
  }
}

TYPED_TEST(DenseStackTest, refusals_name_the_stack) {
  Parameters<TypeParam> parameters(this->device());
  RandomGenerator<TypeParam> const random(this->device());
  auto const made = [&](DenseStackOptions const& options) {
    DenseStack<TypeParam> const stack(parameters, "tower", 3, {5, 2}, options);
  };
  expect_refused([&] { made({.dropout = 0.5F}); }, "'tower'", "without a generator");
  expect_refused([&] { made({.dropout = 1.0F, .random = random}); }, "'tower'", "dropout of 1");
  EXPECT_TRUE(parameters.entries().empty());
  DenseStack<TypeParam> const stack(parameters, "tower", 3, {5, 2});
  auto const input = this->put(Floats(8, 1.0F), {2, 4});
  GradientTape tape(this->device());
  expect_refused([&] { (void)stack(tape, input); }, "'tower'", "an input [2, 4]", "[batch, 3]");
  expect_refused([&] { (void)stack(no_tape, input.reshaped({8})); }, "'tower'", "an input [8]");
}

TYPED_TEST(DenseStackTest, weights_are_shared_if_the_program_says_so) {
  Parameters<TypeParam> parameters(this->device());
  DenseStack<TypeParam> const user(parameters, "tower", 3, {5, 2});
  auto const item = [&](DenseStackOptions const& options) {
    return DenseStack<TypeParam>(parameters, "tower", 3, {5, 2}, options);
  };
  expect_refused([&] { (void)item({}); }, "'tower'", "shared");
  auto const x = this->put(this->random.reals(4 * 3), {4, 3});
  auto const copied = user;
  EXPECT_EQ(to_host(item({.shared = true})(no_tape, x)), to_host(user(no_tape, x)));
  EXPECT_EQ(to_host(copied(no_tape, x)), to_host(user(no_tape, x)));
  EXPECT_EQ(parameters.entries().size(), 4U);
  expect_refused([&] { (void)DenseStack<TypeParam>(parameters, "new", 3, {2}, {.dropout = 1.0F}); },
                 "'new'");
  EXPECT_NO_THROW((void)DenseStack<TypeParam>(parameters, "new", 3, {2})) << "nothing was made";
}

TYPED_TEST(DenseStackTest, parts_of_a_batch_drop_what_the_whole_batch_drops) {
  Parameters<TypeParam> parameters(this->device(), {.seed = 5});
  RandomGenerator<TypeParam> random(this->device(), {.seed = 9});
  DenseStack<TypeParam> const stack(
      parameters, "s", 3, {16, 16, 2}, {.dropout = 0.5F, .random = random});
  auto const x = this->put(this->random.reals(7 * 3), {7, 3});
  GradientTape tape(this->device());
  auto const whole = to_host(stack(tape, x));
  random.advance();
  random.advance();
  RandomGenerator<TypeParam> again(this->device(), {.seed = 9});
  DenseStack<TypeParam> const same(
      parameters, "s", 3, {16, 16, 2}, {.dropout = 0.5F, .random = again, .shared = true});
  auto parts = to_host(same(tape, x.rows(0, 4)));
  for (float const element : to_host(same(tape, x.rows(4, 7), {.first_sample = 4}))) {
    parts.push_back(element);
  }
  EXPECT_EQ(parts, whole);
}

TYPED_TEST(DenseStackTest, uses_of_a_name_drop_other_elements) {
  Parameters<TypeParam> parameters(this->device(), {.seed = 5});
  RandomGenerator<TypeParam> const random(this->device(), {.seed = 9});
  DenseStack<TypeParam> const stack(
      parameters, "s", 3, {64, 2}, {.dropout = 0.5F, .random = random});
  auto const x = this->put(this->random.reals(7 * 3), {7, 3});
  GradientTape tape(this->device());
  auto const positives = to_host(stack(tape, x));
  expect_refused([&] { (void)stack(tape, x); }, "'s/0'", "StackRows::use");
  tape.clear();
  auto const negatives = to_host(stack(tape, x, {.use = "negatives"}));
  EXPECT_NE(positives, negatives);
  EXPECT_EQ(to_host(stack(tape, x)), positives) << "without a name, draws are as they were";
}

template <class R>
class DropoutDrawsTest : public GradientTest<R> {
 protected:
  void SetUp() override {
    GradientTest<R>::SetUp();
    random_.emplace(this->device());
    x_.emplace(this->put(Floats(12, 1.0F), {6, 2}));
  }
  [[nodiscard]] RandomGenerator<R>& random() { return *random_; }
  /// Records a dropout of six samples, and returns its sum.
  Tensor<float, R> drop(GradientTape<R>& tape, char const* name, std::int64_t first = 0) {
    return ops::sum(tape,
                    ops::dropout(tape, *x_, {.rate = 0.5F, .first_sample = first}, *random_, name));
  }
  /// A step that forgets advance().
  void step(char const* name) {
    GradientTape tape(this->device());
    tape.backward(drop(tape, name));
  }

 private:
  std::optional<RandomGenerator<R>> random_;
  std::optional<Tensor<float, R>> x_;
};
TYPED_TEST_SUITE(DropoutDrawsTest, Runtimes, RuntimeNames);

TYPED_TEST(DropoutDrawsTest, that_repeat_a_mask_in_a_capture_are_refused) {
  auto const capture = [&](auto&& function) {
    return CapturedStep<TypeParam>(this->device(), function);
  };
  for (int round = 0; round < 2; ++round) {
    expect_refused(
        [&] {
          (void)capture([&] {
            GradientTape tape(this->device());
            (void)this->drop(tape, "a");
            (void)this->drop(tape, "b");
            (void)this->drop(tape, "a");
          });
        },
        "'a'",
        "twice");
  }
  // A capture that advances in the middle: "b" is drawn once a replay, and "a" twice.
  auto two = capture([&] {
    this->step("b");
    this->step("a");
    this->random().advance();
    this->step("a");
  });
  this->step("c");
  two.replay();
  this->step("c");
  expect_refused([&] { two.replay(); }, "replay: 'a'", "twice");
  two.replay();
  this->random().advance();
  two.replay();
}

TYPED_TEST(DropoutDrawsTest, of_replays_without_advance_are_refused) {
  CapturedStep<TypeParam> drawing(this->device(), [&] { this->step("a"); });
  CapturedStep<TypeParam> advancing(this->device(), [&] { this->random().advance(); });
  drawing.replay();
  expect_refused([&] { drawing.replay(); }, "replay: 'a'", "[0, 6)", "advance()");
  drawing.replay();
  this->random().advance();
  drawing.replay();
  advancing.replay();
  drawing.replay();
  expect_refused([&] { this->step("a"); }, "dropout: 'a'");
  this->step("a");
  expect_refused([&] { drawing.replay(); }, "replay: 'a'");
}

TYPED_TEST(DropoutDrawsTest, do_not_count_if_their_tape_never_played_them_back) {
  EXPECT_THROW(
      {
        GradientTape tape(this->device());
        (void)this->drop(tape, "a");
        throw std::runtime_error("the step fails");
      },
      std::runtime_error);
  GradientTape tape(this->device());
  (void)this->drop(tape, "a");
  tape.clear();
  tape.backward(this->drop(tape, "a"));
  tape.clear();
  expect_refused([&] { (void)this->drop(tape, "a"); }, "'a'", "twice");
}

TYPED_TEST(DenseStackTest, a_dropout_that_would_repeat_a_mask_is_refused) {
  RandomGenerator<TypeParam> random(this->device());
  auto const x = this->put(Floats(12, 1.0F), {6, 2});
  GradientTape tape(this->device());
  auto const drop = [&](auto& on, char const* name, std::int64_t first = 0) {
    return ops::dropout(on, x, {.rate = 0.5F, .first_sample = first}, random, name);
  };
  (void)drop(tape, "a");
  (void)drop(tape, "b");
  (void)drop(tape, "a", 6);  // the other part of the batch
  (void)drop(no_tape, "a");
  expect_refused([&] { (void)drop(tape, "a", 5); }, "'a'", "[5, 11)", "advance()");
  // An error at most once, so that a program can go on after it.
  (void)drop(tape, "a");
  expect_refused([&] { (void)drop(tape, "a"); }, "'a'", "twice");
  (void)drop(tape, "a");
  auto copy_of_generator = random;
  copy_of_generator.advance();
  (void)drop(tape, "a");
  // A capture draws once, and each replay again.
  CapturedStep<TypeParam> step(this->device(), [&] {
    GradientTape captured(this->device());
    (void)drop(captured, "a");
    random.advance();
  });
  step.replay();
}

}  // namespace
}  // namespace msstream::testing
