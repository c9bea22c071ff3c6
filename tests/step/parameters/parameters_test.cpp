// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/step/dense_stack.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The first two moments and the extremes of a sample.
struct Moments {
  explicit Moments(Floats const& values) {
    auto const count = static_cast<double>(values.size());
    mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0;
    for (float const value : values) {
      squares += (value - mean) * (value - mean);
    }
    deviation = std::sqrt(squares / count);
    auto const [low, high] = std::ranges::minmax(values);
    least = low;
    most = high;
  }
  double mean;
  double deviation;
  double least;
  double most;
};

template <class R>
class ParametersTest : public OpsTest<R> {
 protected:
  Moments moments_of(char const* name, Shape const& shape, Initializer const& initializer) {
    Parameters parameters(this->device(), {.seed = 5});
    return Moments(to_host(parameters.dense(name, shape, initializer)));
  }
  static std::string message_of(std::function<void()> const& call) {
    try {
      call();
    } catch (std::invalid_argument const& error) {
      return error.what();
    }
    return "no std::invalid_argument";
  }
};
TYPED_TEST_SUITE(ParametersTest, Runtimes, RuntimeNames);

TYPED_TEST(ParametersTest, first_values_depend_on_seed_and_name_alone) {
  Parameters one(this->device(), {.seed = 1});
  Parameters other_order(this->device(), {.seed = 1});
  Parameters other_seed(this->device(), {.seed = 2});
  auto const a = to_host(one.dense("a", {13, 7}));
  auto const b = to_host(one.dense("b", {13, 7}));
  auto const table = to_host(one.table("t", {33, 5}));
  EXPECT_EQ(to_host(other_order.table("t", {33, 5})), table);
  EXPECT_EQ(to_host(other_order.dense("b", {13, 7})), b);
  EXPECT_EQ(to_host(other_order.dense("a", {13, 7})), a);
  EXPECT_NE(a, b);
  EXPECT_NE(to_host(other_seed.dense("a", {13, 7})), a);
}

TYPED_TEST(ParametersTest, first_values_have_the_initializers_distribution) {
  constexpr double kTolerance = 0.02;  // relative; ten standard errors of 250,000 values
  auto const expect_deviation = [&](Initializer const& initializer, double expected) {
    auto const moments = this->moments_of("w", {500, 500}, initializer);
    EXPECT_NEAR(moments.deviation, expected, kTolerance * expected);
    EXPECT_NEAR(moments.mean, 0.0, kTolerance * expected);
  };
  expect_deviation(init::xavier_uniform(), std::sqrt(2.0 / 1000));
  expect_deviation(init::xavier_normal(2.0F), 2.0 * std::sqrt(2.0 / 1000));
  expect_deviation(init::he_uniform(), std::sqrt(2.0 / 500));
  expect_deviation(init::he_normal(1.0F), std::sqrt(1.0 / 500));
  expect_deviation(init::uniform(-3.0F, 3.0F), std::sqrt(3.0));
  expect_deviation(init::normal(0.0F, 0.5F), 0.5);
  // The standard deviation of a standard normal distribution within [-2, 2].
  expect_deviation(init::truncated_normal(0.0F, 0.5F), 0.5 * 0.87962566);

  auto const truncated = this->moments_of("w", {500, 500}, init::truncated_normal(1.0F, 0.5F));
  EXPECT_GE(truncated.least, 0.0);
  EXPECT_LE(truncated.most, 2.0);
  EXPECT_NEAR(truncated.mean, 1.0, 0.01);
  auto const uniform = this->moments_of("w", {500, 500}, init::uniform(2.0F, 3.0F));
  EXPECT_GE(uniform.least, 2.0);
  EXPECT_LE(uniform.most, 3.0);
}

TYPED_TEST(ParametersTest, fans_are_those_of_one_layer_of_a_stack) {
  auto const moments = this->moments_of("w", {4, 200, 300}, init::xavier_uniform());
  EXPECT_NEAR(moments.deviation, std::sqrt(2.0 / 500), 0.02 * std::sqrt(2.0 / 500));
}

TYPED_TEST(ParametersTest, constants_fill_every_element_of_any_type_and_shape) {
  Parameters parameters(this->device());
  EXPECT_THAT(to_host(parameters.dense("bias", {33}, init::zeros())), Each(0.0F));
  EXPECT_THAT(to_host(parameters.dense("gain", {33}, init::ones())), Each(1.0F));
  EXPECT_THAT(to_host(parameters.dense("scalar", {}, init::constant(-2.5F))), ElementsAre(-2.5F));
  EXPECT_TRUE(to_host(parameters.dense("empty", {0, 4}, init::xavier_uniform())).empty());
  auto const half = to_host(parameters.template table<float16>("half", {3, 3}, init::ones()));
  EXPECT_TRUE(std::ranges::all_of(half, [](float16 value) { return value.bits == 0x3C00; }));
}

TYPED_TEST(ParametersTest, a_name_finds_the_parameter_that_it_made) {
  Parameters parameters(this->device());
  auto const made = parameters.dense("w", {2, 3});
  EXPECT_EQ(parameters.dense("w", {2, 3}).identity(), made.identity());
  EXPECT_EQ(parameters.find("w").identity(), made.identity());
  auto const copy = parameters;
  EXPECT_EQ(copy.find("w").identity(), made.identity());
  EXPECT_TRUE(parameters.contains("w"));
  EXPECT_FALSE(parameters.contains("W"));
  EXPECT_EQ(parameters.count(), 6);
}

TYPED_TEST(ParametersTest, entries_list_what_was_made) {
  Parameters parameters(this->device());
  auto const weight = parameters.dense("w", {2, 3});
  auto const table = parameters.template table<bfloat16>("t", {5, 4});
  EXPECT_EQ(parameters.freeze("t"), 1);
  auto const entries = parameters.entries();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "w");
  EXPECT_EQ(entries[0].shape, (Shape{2, 3}));
  EXPECT_EQ(entries[0].kind, Parameters<TypeParam>::Kind::dense);
  EXPECT_FALSE(entries[0].is_frozen);
  EXPECT_EQ(entries[1].name, "t");
  EXPECT_EQ(entries[1].dtype, DType::bfloat16);
  EXPECT_EQ(entries[1].kind, Parameters<TypeParam>::Kind::table);
  EXPECT_TRUE(entries[1].is_frozen);
}

TYPED_TEST(ParametersTest, mistakes_are_refused_by_name_and_change_nothing) {
  Parameters parameters(this->device());
  auto const weight = parameters.dense("top/weight", {2, 3});
  auto const before = to_host(weight);
  EXPECT_THAT(this->message_of([&] {
    (void)parameters.dense("top/weight", {3, 2});
  }),
              HasSubstr("\"top/weight\" has shape [2, 3]; it was asked for with shape [3, 2]"));
  EXPECT_THAT(this->message_of([&] {
    (void)parameters.table("top/weight", {2, 3});
  }),
              HasSubstr("\"top/weight\" is a dense parameter; it was asked for as a table"));
  EXPECT_THAT(this->message_of([&] {
    (void)parameters.buffer("top/weight", {2, 3});
  }),
              HasSubstr("it was asked for as a buffer"));
  EXPECT_THAT(
      this->message_of([&] {
        (void)parameters.dense("top/weight", {2, 3}, init::xavier_uniform(2.0F));
      }),
      HasSubstr("\"top/weight\" was made with the initializer xavier_uniform(1); it was asked "
                "for with xavier_uniform(2)"));
  EXPECT_THAT(this->message_of([&] { (void)parameters.template find<float16>("top/weight"); }),
              HasSubstr("\"top/weight\" is of float32; it was asked for as float16"));
  EXPECT_THAT(this->message_of([&] { (void)parameters.find("top/wieght"); }),
              HasSubstr("no parameter \"top/wieght\"; there are \"top/weight\""));
  EXPECT_THAT(this->message_of([&] { (void)parameters.dense("", {2}); }),
              HasSubstr("a name is empty"));
  EXPECT_THAT(this->message_of([&] { (void)parameters.dense("bias", {3}); }),
              AllOf(HasSubstr("\"bias\" of shape [3]; its initializer expects [inputs, outputs]"),
                    HasSubstr("for another shape, pass one such as init::zeros()")));
  EXPECT_THAT(this->message_of([&] { (void)parameters.table("users", {3}); }),
              HasSubstr("\"users\" of shape [3]; expected [rows, width]"));
  EXPECT_THAT(
      this->message_of([&] { (void)parameters.dense("b", {3}, init::uniform(1.0F, -1.0F)); }),
      HasSubstr("\"b\" has an initializer with the bounds 1 and -1; expected them ascending"));
  EXPECT_THAT(this->message_of([&] { (void)parameters.dense("b", {3}, init::normal(0.0F, NAN)); }),
              HasSubstr("\"b\" has the initializer normal(0, nan); expected finite numbers"));
  EXPECT_THAT(this->message_of([&] { parameters.freeze("tower"); }),
              HasSubstr("\"tower\" matches the whole name of no parameter; there are"));
  EXPECT_EQ(parameters.entries().size(), 1U);
  EXPECT_EQ(to_host(weight), before);
}

TYPED_TEST(ParametersTest, a_name_is_found_again_without_its_initializer_or_with_the_same) {
  Parameters parameters(this->device());
  auto const gate = parameters.dense("gate", {2, 3}, init::ones());
  EXPECT_EQ(parameters.dense("gate", {2, 3}).data(), gate.data());
  EXPECT_EQ(parameters.dense("gate", {2, 3}, init::constant(1.0F)).data(), gate.data());
  auto const table = parameters.table("table", {2, 3});
  EXPECT_EQ(parameters.table("table", {2, 3}, init::uniform(-0.05F, 0.05F)).data(), table.data());
  auto const buffer = parameters.buffer("buffer", {3});
  EXPECT_EQ(parameters.buffer("buffer", {3}, init::zeros()).data(), buffer.data());
}

TYPED_TEST(ParametersTest, an_optimizer_takes_the_store_whole_without_what_is_frozen) {
  Parameters parameters(this->device());
  DenseStack const frozen(parameters, "bottom", 3, {4});
  DenseStack const trained(parameters, "top", 4, {2, 1});
  auto const table = parameters.table("table", {5, 3});
  auto const buffer = parameters.buffer("statistics", {3});
  EXPECT_EQ(parameters.freeze("bottom/*"), 2);
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.1F});
  optimizer.add(parameters);
  optimizer.add(parameters);  // adds nothing more
  auto const before = to_host(parameters.find("bottom/0/weight"));
  auto const table_before = to_host(table);
  GradientTape tape(this->device());
  auto const rows =
      ops::embedding_lookup(tape, table, ops::Bags<TypeParam>(this->put(Integers{1, 4}, {2})));
  auto const labels = this->put(Floats{0, 1}, {2, 1});
  tape.backward(ops::mean_bce_with_logits(tape, trained(tape, frozen(tape, rows)), labels));
  auto const gradient = to_host(tape.gradient(parameters.find("top/1/bias")));
  optimizer.step(tape);
  EXPECT_EQ(to_host(parameters.find("bottom/0/weight")), before);
  EXPECT_NE(to_host(table), table_before);
  EXPECT_THAT(to_host(buffer), Each(0.0F));
  EXPECT_NEAR(to_host(parameters.find("top/1/bias"))[0], -0.1F * gradient[0], 1e-7);
}

TYPED_TEST(ParametersTest, an_optimizer_takes_parameters_of_a_name_with_numbers_of_their_own) {
  Parameters parameters(this->device());
  DenseStack const stack(parameters, "mlp", 3, {2, 1}, {.bias = init::ones()});
  Optimizer<TypeParam> optimizer(
      this->device(),
      {.kind = ops::OptimizerKind::adamw, .learning_rate = 0.0F, .weight_decay = 0.5F});
  optimizer.add(parameters, "*/bias", {.learning_rate = 0.0F});
  optimizer.add(parameters);
  optimizer.set_learning_rate(0.1F);
  auto const bias = to_host(parameters.find("mlp/1/bias"));
  auto const weight = to_host(parameters.find("mlp/1/weight"));
  GradientTape tape(this->device());
  auto const x = this->put(this->random.reals(4 * 3), {4, 3});
  tape.backward(ops::mean(tape, stack(tape, x)));
  optimizer.step(tape);
  EXPECT_EQ(to_host(parameters.find("mlp/1/bias")), bias);
  EXPECT_NE(to_host(parameters.find("mlp/1/weight")), weight);
  EXPECT_THAT(this->message_of([&] { optimizer.add(parameters, "*/bais", {}); }),
              HasSubstr("\"*/bais\" matches the whole name of no parameter"));
  EXPECT_THAT(
      this->message_of([&] { optimizer.add(parameters, "*/weight", {.learning_rate = 2.0F}); }),
      HasSubstr("the optimizer has \"mlp/0/weight\" already"));
}

TYPED_TEST(ParametersTest, a_check_names_what_the_store_got_after_the_optimizer_took_it) {
  Parameters parameters(this->device());
  auto const early = parameters.dense("early", {2, 1});
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F},
                                 {.check_every_step = true});
  optimizer.add(parameters);
  auto const late = parameters.dense("late", {2, 1});
  auto const table = parameters.table("late_table", {3, 1});
  (void)parameters.dense("unused", {2, 1});
  auto const buffer = parameters.buffer("buffer", {2, 1});
  GradientTape tape(this->device());
  auto const backward = [&] {
    tape.backward(ops::add(
        tape,
        std::vector{ops::sum(tape, early),
                    ops::sum(tape, late),
                    ops::sum(tape, buffer),
                    ops::sum(tape,
                             ops::embedding_lookup(
                                 tape, table, {this->put(std::vector<std::int64_t>{1})}))}));
  };
  backward();
  auto const message = message_of<std::logic_error>([&] { optimizer.step(tape); });
  EXPECT_THAT(message,
              ::testing::AllOf(HasSubstr("\"late\" of shape [2, 1]"),
                               HasSubstr("\"late_table\""),
                               HasSubstr("\"unused\" of shape [2, 1] has no gradient"),
                               ::testing::Not(HasSubstr("buffer")),
                               ::testing::Not(HasSubstr("early")),
                               ::testing::Not(HasSubstr("was looked up"))));
  tape.clear();
  Optimizer<TypeParam> others(this->device(),
                              {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
  others.add(parameters, "late*", {});
  parameters.freeze("unused");
  backward();
  EXPECT_NO_THROW(optimizer.check(tape, others));
  EXPECT_NO_THROW(optimizer.check(tape)) << "the store knows the other optimizer";
  EXPECT_NO_THROW(others.check(tape));
  tape.clear();
}

TYPED_TEST(ParametersTest, an_optimizer_refuses_tensors_of_another_device) {
  Device<TypeParam> const other;
  Parameters parameters(other);
  auto const w = parameters.dense("w", {2, 1});
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
  expect_refused([&] { optimizer.add("w", w); }, "\"w\" of shape [2, 1]", "another device");
  expect_refused([&] { optimizer.add(parameters); }, "\"w\"", "another device");
}

TYPED_TEST(ParametersTest, an_optimizer_refuses_a_store_whole) {
  Parameters parameters(this->device());
  auto const first = parameters.dense("first", {2, 2});
  auto const second = parameters.dense("second", {2, 2});
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::momentum, .learning_rate = 0.1F});
  optimizer.add("second", this->put(Floats(4, 1.0F), {2, 2}));
  EXPECT_THAT(this->message_of([&] { optimizer.add(parameters); }),
              HasSubstr("two parameters named \"second\""));
  int states = 0;
  optimizer.visit_state(
      [&](std::string const& name, auto const&) { states += name.ends_with("/state0") ? 1 : 0; });
  EXPECT_EQ(states, 1);
}

TYPED_TEST(ParametersTest, a_dense_stack_is_its_layers_one_after_the_other) {
  Parameters parameters(this->device(), {.seed = 3});
  DenseStack const stack(parameters, "mlp", 3, {5, 2}, {.last = ops::Activation::relu});
  auto const input = this->put(this->random.reals(4 * 3), {4, 3});
  GradientTape tape(this->device());
  auto const hidden = ops::dense(
      input, parameters.find("mlp/0/weight"), parameters.find("mlp/0/bias"), ops::Activation::relu);
  auto const expected = ops::dense(hidden,
                                   parameters.find("mlp/1/weight"),
                                   parameters.find("mlp/1/bias"),
                                   ops::Activation::relu);
  EXPECT_EQ(to_host(stack(tape, input)), to_host(expected));
  DenseStack const none(parameters, "none", 3, {});
  EXPECT_EQ(none(tape, input).identity(), input.identity());
}

}  // namespace
}  // namespace msstream::testing
