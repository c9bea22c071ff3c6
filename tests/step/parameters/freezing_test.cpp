// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameters.hpp>

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A model of a table and two layers, and its training.
template <class R>
struct Freezing {
  explicit Freezing(Device<R> const& device, OptimizerOptions const& options = {})
      : parameters(device, {.seed = 5}),
        table(parameters.table("table", {5, 3})),
        bottom(parameters, "bottom", 3, {4}),
        top(parameters, "top", 4, {1}),
        optimizer(device, {.kind = ops::OptimizerKind::momentum, .learning_rate = 0.1F}, options),
        tape(device),
        ids(to_device(device, std::vector<std::int64_t>{1, 4}, {2})),
        labels(to_device(device, std::vector<float>{5, 7}, {2, 1})) {}

  void backward() {
    auto const rows = ops::embedding_lookup(tape, table, ops::Bags<R>(ids));
    tape.backward(ops::mse_loss(tape, top(tape, bottom(tape, rows)), labels));
  }
  void step() {
    backward();
    optimizer.step(tape);
    tape.clear();
  }
  [[nodiscard]] std::vector<float> values(std::string const& name) const {
    return to_host(parameters.find(name));
  }

  Parameters<R> parameters;
  Tensor<float, R> table;
  DenseStack<R> bottom;
  DenseStack<R> top;
  Optimizer<R> optimizer;
  GradientTape<R> tape;
  Tensor<std::int64_t, R> ids;
  Tensor<float, R> labels;
};

template <class R>
class FreezingTest : public OpsTest<R> {};
TYPED_TEST_SUITE(FreezingTest, Runtimes, RuntimeNames);

TYPED_TEST(FreezingTest, what_is_frozen_stays_and_goes_on_when_it_is_unfrozen) {
  Freezing<TypeParam> model(this->device(), {.check_every_step = true});
  auto& parameters = model.parameters;
  model.optimizer.add(parameters);
  model.step();
  EXPECT_EQ(parameters.freeze("bottom/*"), 2);
  EXPECT_EQ(parameters.freeze("table"), 1);
  auto const weight = model.values("bottom/0/weight");
  auto const table = model.values("table");
  auto const top = model.values("top/0/bias");
  model.step();
  model.step();
  EXPECT_EQ(model.values("bottom/0/weight"), weight);
  EXPECT_EQ(model.values("table"), table);
  EXPECT_NE(model.values("top/0/bias"), top);
  EXPECT_EQ(parameters.unfreeze("*"), 5);
  EXPECT_FALSE(parameters.entries().front().is_frozen);
  model.step();
  EXPECT_NE(model.values("bottom/0/weight"), weight);
  EXPECT_NE(model.values("table"), table);
}

TYPED_TEST(FreezingTest, a_gradient_of_before_moves_nothing_that_is_frozen) {
  Freezing<TypeParam> model(this->device());
  model.optimizer.add(model.parameters);
  model.backward();
  auto const weight = model.values("bottom/0/weight");
  auto const table = model.values("table");
  auto const top = model.values("top/0/bias");
  model.parameters.freeze("bottom/*");
  model.parameters.freeze("table");
  model.optimizer.step(model.tape);
  EXPECT_EQ(model.values("bottom/0/weight"), weight);
  EXPECT_EQ(model.values("table"), table);
  EXPECT_NE(model.values("top/0/bias"), top);
}

TYPED_TEST(FreezingTest, an_optimizer_that_left_it_out_is_told_to_take_it) {
  Freezing<TypeParam> model(this->device());
  model.parameters.freeze("bottom/*");
  model.optimizer.add(model.parameters);
  model.step();
  auto const weight = model.values("bottom/0/weight");
  auto const top = model.values("top/0/bias");
  model.parameters.unfreeze("bottom/0/weight");
  EXPECT_THAT(message_of<std::logic_error>([&] { model.step(); }),
              AllOf(HasSubstr("\"bottom/0/weight\" of shape [3, 4] was frozen"),
                    HasSubstr("call add() again")));
  EXPECT_EQ(model.values("top/0/bias"), top);
  model.tape.clear();
  model.optimizer.add(model.parameters);
  model.step();
  EXPECT_NE(model.values("bottom/0/weight"), weight);
  EXPECT_NE(model.values("top/0/bias"), top);
}

TYPED_TEST(FreezingTest, an_optimizer_of_other_names_is_not_told) {
  Freezing<TypeParam> model(this->device());
  model.parameters.freeze("bottom/*");
  model.optimizer.add(model.parameters, "top/*", {});
  model.parameters.unfreeze("bottom/*");
  EXPECT_NO_THROW(model.step());
}

TYPED_TEST(FreezingTest, a_captured_step_is_told) {
  if constexpr (CapturingRuntime<TypeParam>) {
    Freezing<TypeParam> model(this->device());
    auto& parameters = model.parameters;
    model.optimizer.add(parameters);
    auto const step = [&] { model.step(); };
    step();
    CapturedStep<TypeParam> whole(this->device(), step);
    parameters.freeze("bottom/*");
    auto const weight = model.values("bottom/0/weight");
    EXPECT_THAT(message_of<std::logic_error>([&] { whole.replay(); }),
                AllOf(HasSubstr("writes \"bottom/0/"), HasSubstr("capture the step again")));
    CapturedStep<TypeParam> part(this->device(), step);
    part.replay();
    EXPECT_EQ(model.values("bottom/0/weight"), weight);
    parameters.unfreeze("*/weight");
    EXPECT_THAT(message_of<std::logic_error>([&] { part.replay(); }),
                AllOf(HasSubstr("used \"bottom/0/weight\" while it was frozen"),
                      HasSubstr("capture the step again")));
    EXPECT_EQ(model.values("bottom/0/weight"), weight);
    parameters.freeze("*/0/weight");
    parameters.unfreeze("top/*");
    EXPECT_NO_THROW(part.replay()) << "what was frozen at the capture is frozen again";
    EXPECT_EQ(model.values("bottom/0/weight"), weight);
    parameters.unfreeze("*");
    EXPECT_NO_THROW(whole.replay()) << "nothing is frozen, as at the capture";
    EXPECT_NE(model.values("bottom/0/weight"), weight);
  }
}

TYPED_TEST(FreezingTest, what_a_capture_uses_is_not_unfrozen_in_it) {
  if constexpr (CapturingRuntime<TypeParam>) {
    Freezing<TypeParam> model(this->device());
    model.parameters.freeze("top/0/bias");
    auto const bias = model.parameters.find("top/0/bias");
    EXPECT_THAT(message_of<std::logic_error>([&] {
                  CapturedStep<TypeParam>(this->device(), [&] {
                    (void)ops::scale(bias, 2.0F);
                    model.parameters.unfreeze("*");
                  });
                }),
                HasSubstr("\"top/0/bias\" of shape [1] is used in a capture"));
  }
}

TYPED_TEST(FreezingTest, a_pattern_of_no_name_is_refused) {
  Parameters parameters(this->device());
  (void)parameters.dense("weight", {2, 1});
  expect_refused([&] { parameters.unfreeze("bias"); }, "Parameters::unfreeze", "\"bias\"");
}

}  // namespace
}  // namespace msstream::testing
