// SPDX-License-Identifier: Apache-2.0
// What an optimizer would train wrongly, or not at all, without a word.
#include "ops/ops_fixture.hpp"

#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <class R>
class OptimizerRefusalsTest : public OpsTest<R> {
 protected:
  static constexpr ops::OptimizerRule rule{.kind = ops::OptimizerKind::sgd, .learning_rate = 0.5F};

  [[nodiscard]] Tensor<float, R> ones(Shape const& shape) const {
    return this->put(Floats(static_cast<std::size_t>(shape.count()), 1.0F), shape);
  }
  static std::string said_by(auto&& call) { return message_of<std::logic_error>(call); }
};
TYPED_TEST_SUITE(OptimizerRefusalsTest, Runtimes, RuntimeNames);

TYPED_TEST(OptimizerRefusalsTest, elements_that_a_step_would_move_twice) {
  Optimizer<TypeParam> optimizer(this->device(), this->rule);
  auto const w = this->ones({4, 2});
  auto const table = this->ones({6, 2});
  optimizer.add("w", w);
  optimizer.add_table("table", table.rows(1, 5));
  auto const refused = [&](auto&& call, char const* owner) {
    expect_refused(call, "\"again\"", owner, "twice");
  };
  refused([&] { optimizer.add("again", w); }, "\"w\" of shape [4, 2]");
  refused([&] { optimizer.add("again", w.reshaped({8})); }, "\"w\"");
  refused([&] { optimizer.add("again", w.rows(1, 3)); }, "\"w\"");
  refused([&] { optimizer.add_table("again", w); }, "\"w\"");
  refused([&] { optimizer.add_table("again", table); }, "\"table\" of shape [4, 2]");
  refused([&] { optimizer.add_table("again", table.rows(4, 6)); }, "\"table\"");
  refused([&] { optimizer.add("again", table.rows(0, 2)); }, "\"table\"");
  // What shares nothing may stand beside it, and a refused name is free.
  optimizer.add_table("again", table.rows(5, 6));
  optimizer.add("first", table.rows(0, 1));
  GradientTape tape(this->device());
  tape.backward(ops::add(tape, std::vector{ops::sum(tape, w), ops::sum(tape, table.rows(0, 1))}));
  optimizer.step(tape);
  EXPECT_THAT(to_host(w), Each(0.5F));
}

TYPED_TEST(OptimizerRefusalsTest, two_parameters_of_one_name) {
  Optimizer<TypeParam> optimizer(this->device(), this->rule);
  optimizer.add("dense", this->ones({4}));
  optimizer.add_table("table", this->ones({4, 2}));
  expect_refused([&] { optimizer.add("dense", this->ones({4})); }, "\"dense\"");
  expect_refused([&] { optimizer.add("table", this->ones({4})); }, "\"table\"");
  expect_refused([&] { optimizer.add_table("dense", this->ones({4, 2})); }, "\"dense\"");
}

TYPED_TEST(OptimizerRefusalsTest, what_no_step_could_move) {
  Optimizer<TypeParam> optimizer(this->device(), this->rule);
  auto frozen = this->ones({4, 2});
  frozen.freeze();
  expect_refused([&] { optimizer.add("frozen", frozen); }, "\"frozen\" of shape [4, 2]");
  expect_refused([&] { optimizer.add_table("frozen", frozen); }, "\"frozen\" of shape [4, 2]");
  expect_refused([&] { optimizer.add_table("bias", this->ones({4})); }, "\"bias\"", "[4]", "add()");
}

TYPED_TEST(OptimizerRefusalsTest, rules_with_numbers_out_of_range) {
  auto const refused = [&](ops::OptimizerRule const& bad, auto const&... words) {
    expect_refused([&] { Optimizer<TypeParam>(this->device(), bad); }, "Optimizer", words...);
  };
  auto const kAdam = ops::OptimizerKind::adam;
  refused({.kind = kAdam, .learning_rate = std::nanf("")}, "learning_rate", "[0, infinity)");
  refused({.kind = kAdam, .learning_rate = -0.1F}, "learning_rate of -0.1");
  refused({.kind = kAdam, .learning_rate = 0.1F, .beta1 = 2.0F}, "beta1 of 2", "[0, 1)");
}

TYPED_TEST(OptimizerRefusalsTest, parameters_without_gradient_are_named_with_the_reason) {
  Optimizer<TypeParam> optimizer(this->device(), this->rule);
  auto frozen = this->ones({1});
  auto const excluded = this->ones({2});
  auto const unused = this->ones({3});
  auto const cut = this->ones({4});
  auto const used = this->ones({5});
  optimizer.add("frozen", frozen);
  optimizer.add("excluded", excluded);
  optimizer.add("unused", unused);
  optimizer.add("cut", cut);
  optimizer.add("used", used);
  frozen.freeze();
  GradientTape tape(this->device());
  EXPECT_THAT(this->said_by([&] { optimizer.step(tape); }),
              HasSubstr("\"unused\" of shape [3] has no gradient: backward() was not called"));
  tape.without_gradient(excluded);
  auto const middle = ops::scale(cut, 2.0F);  // without the tape
  tape.backward(ops::add(tape,
                         std::vector{ops::sum(tape, middle),
                                     ops::sum(tape, used),
                                     ops::sum(tape, frozen),
                                     ops::sum(tape, excluded)}));
  EXPECT_THAT(this->said_by([&] { optimizer.step(tape); }),
              AllOf(HasSubstr("\"frozen\" of shape [1] has no gradient: it is frozen"),
                    HasSubstr("\"excluded\" of shape [2] has no gradient: it is excluded"),
                    HasSubstr("\"unused\" of shape [3] has no gradient: the loss does not"),
                    HasSubstr("\"cut\" of shape [4]"),
                    HasSubstr("called without the tape"),
                    Not(HasSubstr("\"used\""))));
  EXPECT_THAT(to_host(used), Each(1.0F));
}

TYPED_TEST(OptimizerRefusalsTest, a_table_that_an_operation_other_than_a_lookup_uses) {
  auto const table = this->ones({3, 2});
  Optimizer<TypeParam> optimizer(this->device(), this->rule);
  optimizer.add_table("table", table);
  for (bool const looked_up_too : {false, true}) {
    GradientTape tape(this->device());
    std::vector terms{ops::sum(tape, table.rows(1, 2))};
    if (looked_up_too) {
      terms.push_back(ops::sum(tape, ops::embedding_lookup(tape, table, {this->put(Integers{0})})));
    }
    tape.backward(ops::add(tape, terms));
    EXPECT_THAT(this->said_by([&] { optimizer.step(tape); }),
                AllOf(HasSubstr("\"table\" of shape [3, 2]"), HasSubstr("add()")));
    EXPECT_THAT(to_host(table), Each(1.0F));
  }
}

TYPED_TEST(OptimizerRefusalsTest, the_check_lists_all_that_would_not_be_trained) {
  auto const user = this->ones({3, 1});
  auto const item = this->ones({4, 1});
  auto const stranger = this->ones({5, 1});
  auto const weight = this->ones({2});
  Optimizer<TypeParam> optimizer(this->device(), this->rule, {.check_first_step = true});
  optimizer.add_table("user", user);
  optimizer.add_table("item", item);
  optimizer.add("weight", weight);
  GradientTape tape(this->device());
  auto const look_up = [&](auto const& table) {
    return ops::sum(tape, ops::embedding_lookup(tape, table, {this->put(Integers{1})}));
  };
  tape.backward(ops::add(tape, std::vector{look_up(user), look_up(stranger.rows(1, 3))}));
  auto const message = this->said_by([&] { optimizer.step(tape); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("table \"item\" of shape [4, 1] has no gradient"),
                    HasSubstr("parameter \"weight\" of shape [2] has no gradient"),
                    HasSubstr("a table of shape [2, 1] was looked up: no optimizer has it"),
                    Not(HasSubstr("\"user\""))));
  EXPECT_EQ(this->said_by([&] { optimizer.check(tape); }), message);
  Optimizer<TypeParam> half(this->device(), this->rule);
  half.add_table("half", stranger.rows(2, 5));
  EXPECT_THAT(this->said_by([&] { optimizer.check(tape, half); }),
              HasSubstr("a table of shape [2, 1] was looked up: no optimizer has all of its rows"));
  EXPECT_THAT(to_host(user), Each(1.0F));

  Optimizer<TypeParam> others(this->device(), this->rule);
  others.add_table("stranger", stranger);
  tape.clear();
  auto const all =
      std::vector{look_up(user), look_up(item), look_up(stranger), ops::sum(tape, weight)};
  tape.backward(ops::add(tape, all));
  optimizer.check(tape, others);
  EXPECT_THROW(optimizer.check(tape), std::logic_error);

  // The first step that passes is the last one that is checked.
  tape.clear();
  tape.backward(ops::add(tape, std::vector{look_up(user), look_up(item), ops::sum(tape, weight)}));
  optimizer.step(tape);
  tape.clear();
  tape.backward(ops::add(tape, std::vector{look_up(user), ops::sum(tape, weight)}));
  optimizer.step(tape);
  EXPECT_THAT(to_host(user), ElementsAre(1, 0, 1));
}

}  // namespace
}  // namespace msstream::testing
