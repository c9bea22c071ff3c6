// SPDX-License-Identifier: Apache-2.0
// Tests that an optimizer refuses to step where it would silently train wrongly, or not at all.
#include "ops/ops_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <cmath>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
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
  [[nodiscard]] auto look_up(GradientTape<R>& tape, auto const& table, Integers const& ids) {
    return ops::embedding_lookup(tape, table, {this->put(ids)});
  }
  [[nodiscard]] Tensor<float, R> looked_up_sum(GradientTape<R>& tape, auto const& table) {
    return ops::sum(tape, look_up(tape, table, {1}));
  }
  /// Returns the sum of a lookup. Its gradient does not reach the table, because relu() is called
  /// without the tape.
  [[nodiscard]] Tensor<float, R> cut_off_sum(GradientTape<R>& tape, auto const& table) {
    return ops::sum(tape, ops::relu(look_up(tape, table, {1})));
  }
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
  // Rows that share no element with other parameters are accepted, under a name that was refused
  // before.
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
  optimizer.add("frozen later", frozen);
  optimizer.add("excluded", excluded);
  optimizer.add("unused", unused);
  optimizer.add("cut", cut);
  optimizer.add("used", used);
  frozen.freeze();
  GradientTape tape(this->device());
  EXPECT_THAT(this->said_by([&] { optimizer.step(tape); }),
              HasSubstr("\"unused\" of shape [3] has no gradient: backward() was not called"));
  tape.without_gradient(excluded);
  auto const middle = ops::scale(cut, 2.0F);  // called without the tape
  tape.backward(ops::add(tape,
                         std::vector{ops::sum(tape, middle),
                                     ops::sum(tape, used),
                                     ops::sum(tape, frozen),
                                     ops::sum(tape, excluded)}));
  EXPECT_THAT(this->said_by([&] { optimizer.step(tape); }),
              AllOf(Not(HasSubstr("frozen")),
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
  // Rows that two optimizers have are counted once, so the other rows of the table are still
  // missing.
  Optimizer<TypeParam> same_half(this->device(), this->rule);
  same_half.add_table("same half", stranger.rows(2, 5));
  EXPECT_THAT(this->said_by([&] { optimizer.check(tape, half, same_half); }),
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

  // Only the steps up to the first one that passes are checked.
  tape.clear();
  tape.backward(ops::add(tape, std::vector{look_up(user), look_up(item), ops::sum(tape, weight)}));
  optimizer.step(tape);
  tape.clear();
  tape.backward(ops::add(tape, std::vector{look_up(user), ops::sum(tape, weight)}));
  optimizer.step(tape);
  EXPECT_THAT(to_host(user), ElementsAre(1, 0, 1));
}

TYPED_TEST(OptimizerRefusalsTest, the_check_names_tables_whose_lookup_is_cut_off) {
  auto const users = this->ones({3, 2});
  auto const items = this->ones({4, 2});
  auto const stranger = this->ones({5, 2});
  auto const weight = this->ones({2, 1});
  auto const bias = this->ones({1});
  Optimizer<TypeParam> optimizer(this->device(), this->rule, {.check_first_step = true});
  optimizer.add_table("users", users);
  optimizer.add_table("items", items);
  optimizer.add("weight", weight);
  optimizer.add("bias", bias);
  GradientTape tape(this->device());
  auto const run = [&](auto const& activation) {
    tape.clear();
    auto const middle = activation(this->look_up(tape, users, {0, 2}));
    auto const other = activation(this->look_up(tape, stranger, {1, 3}));
    auto const loss = ops::sum(
        tape,
        ops::add(tape,
                 std::vector{ops::dense(tape, middle, weight, bias),
                             ops::dense(tape, other, weight, bias),
                             ops::dense(tape, this->look_up(tape, items, {0, 1}), weight, bias)}));
    tape.backward(loss);
  };
  run([](auto const& pooled) { return ops::relu(pooled); });  // called without the tape
  auto const message = this->said_by([&] { optimizer.step(tape); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("table \"users\" of shape [3, 2] has no gradient: it was looked up, "
                              "but the loss does not depend on it, or an operation in between was "
                              "called without the tape"),
                    HasSubstr("a table of shape [5, 2] was looked up: no optimizer has it, and it "
                              "has no gradient: the loss does not depend on it, or an operation"),
                    Not(HasSubstr("\"items\"")),
                    Not(HasSubstr("\"weight\""))));
  EXPECT_THAT(to_host(items), Each(1.0F));
  Optimizer<TypeParam> others(this->device(), this->rule);
  others.add_table("stranger", stranger);
  EXPECT_THAT(this->said_by([&] { optimizer.check(tape, others); }),
              AllOf(HasSubstr("\"users\""), Not(HasSubstr("[5, 2]"))));
  EXPECT_THAT(this->said_by([&] { others.check(tape, optimizer); }),
              AllOf(HasSubstr("\"stranger\""), Not(HasSubstr("\"users\""))));

  run([&](auto const& pooled) { return ops::relu(tape, pooled); });
  optimizer.check(tape, others);
  others.check(tape, optimizer);
}

TYPED_TEST(OptimizerRefusalsTest, the_check_tells_of_rows_whose_lookup_is_cut_off) {
  auto const tables = this->ones({6, 1});  // two tables of three rows
  Optimizer<TypeParam> optimizer(this->device(), this->rule);
  optimizer.add_table("tables", tables);
  GradientTape tape(this->device());
  tape.backward(ops::add(tape,
                         std::vector{this->looked_up_sum(tape, tables.rows(0, 3)),
                                     this->cut_off_sum(tape, tables.rows(3, 6))}));
  EXPECT_THAT(this->said_by([&] { optimizer.check(tape); }),
              HasSubstr("rows of \"tables\" of shape [6, 1] have no gradient: a view of shape "
                        "[3, 1] was looked up, but the loss does not depend on it"));
  optimizer.step(tape);  // tables without gradient do not hinder a step
  EXPECT_THAT(to_host(tables), ElementsAre(1, 0.5F, 1, 1, 1, 1));
}

TYPED_TEST(OptimizerRefusalsTest, the_check_is_silent_about_lookups_that_need_no_gradient) {
  auto const table = this->ones({3, 1});
  auto const data = this->ones({4, 1});
  auto const excluded_later = this->ones({5, 1});
  auto frozen_later = this->ones({6, 1});
  auto const paused = this->ones({7, 1});
  Optimizer<TypeParam> optimizer(this->device(), this->rule);
  optimizer.add_table("table", table);
  GradientTape tape(this->device());
  tape.without_gradient(data);
  (void)this->cut_off_sum(tape, data);
  (void)this->cut_off_sum(tape, excluded_later);
  (void)this->cut_off_sum(tape, frozen_later);
  {
    typename GradientTape<TypeParam>::Pause const pause(tape);
    (void)this->cut_off_sum(tape, paused);
  }
  tape.without_gradient(excluded_later);
  frozen_later.freeze();
  // A lookup in a computed result is not a lookup in a table. Of the table itself, one lookup has
  // no gradient, but another one has.
  (void)this->cut_off_sum(tape, ops::scale(tape, table, 2.0F));
  (void)this->cut_off_sum(tape, table);
  tape.backward(this->looked_up_sum(tape, table));
  optimizer.check(tape);
}

TYPED_TEST(OptimizerRefusalsTest, lookups_that_are_cut_off_are_forgotten_with_the_step) {
  GradientTape tape(this->device());
  Optimizer<TypeParam> optimizer(this->device(), this->rule);
  auto const weight = this->ones({2});
  optimizer.add("weight", weight);
  auto const bytes = [&] { return this->device().memory_statistics().live_bytes; };
  auto const before = bytes();
  {
    auto const table = this->ones({1 << 16, 1});
    for (int i = 0; i < 3; ++i) {  // without clear() in between
      (void)this->cut_off_sum(tape, table);
      tape.backward(ops::sum(tape, weight));
    }
  }
  auto const message = this->said_by([&] { optimizer.check(tape); });
  EXPECT_THAT(message, HasSubstr("a table of shape [65536, 1] was looked up: no optimizer has it"));
  EXPECT_EQ(message.find("[65536, 1]"), message.rfind("[65536, 1]"));
  EXPECT_GE(bytes(), before + (4U << 16U));
  tape.clear();
  EXPECT_LT(bytes(), before + (4U << 16U));
  tape.backward(ops::sum(tape, weight));
  optimizer.check(tape);
}

TYPED_TEST(OptimizerRefusalsTest, what_two_optimizers_would_move_by_one_gradient) {
  struct Case {
    char const* what;
    std::function<void(Optimizer<TypeParam>&, Tensor<float, TypeParam> const&)> add_first;
    std::function<void(Optimizer<TypeParam>&, Tensor<float, TypeParam> const&)> add_second;
    bool by_lookup;
    std::vector<std::string> words;
  };
  auto const whole = [](auto& optimizer, auto const& w) { optimizer.add("w", w); };
  auto const flat = [](auto& optimizer, auto const& w) { optimizer.add("flat", w.reshaped({8})); };
  auto const above = [](auto& optimizer, auto const& w) { optimizer.add("above", w.rows(0, 3)); };
  auto const below = [](auto& optimizer, auto const& w) { optimizer.add("below", w.rows(2, 4)); };
  auto const table = [](auto& optimizer, auto const& w) { optimizer.add_table("table", w); };
  auto const rows = [](auto& optimizer, auto const& w) {
    optimizer.add_table("rows", w.rows(1, 4));
  };
  std::vector<Case> const cases = {
      {"twice", whole, whole, false, {"parameter \"w\" of shape [4, 2]", "as \"w\" of"}},
      {"reshaped", whole, flat, false, {"parameter \"flat\" of shape [8]", "as \"w\" of"}},
      {"a view", flat, above, false, {"\"above\" of shape [3, 2]", "as \"flat\" of shape [8]"}},
      {"views", above, below, false, {"\"below\" of shape [2, 2]", "as \"above\" of"}},
      {"a table", table, table, true, {"table \"table\" of shape [4, 2]", "as \"table\" of"}},
      {"rows", table, rows, true, {"table \"rows\" of shape [3, 2]", "as \"table\" of"}},
      {"both", rows, whole, true, {"parameter \"w\" of shape [4, 2]", "as \"rows\" of"}},
  };
  for (auto const& [what, add_first, add_second, looks_up, words] : cases) {
    SCOPED_TRACE(what);
    bool const by_lookup = looks_up;
    auto const w = this->ones({4, 2});
    auto const own = this->ones({3});
    Optimizer<TypeParam> first(this->device(), this->rule);
    Optimizer<TypeParam> second(this->device(), this->rule);
    add_first(first, w);
    second.add("own", own);
    add_second(second, w);
    GradientTape tape(this->device());
    auto const backward = [&] {
      tape.clear();
      auto const used = by_lookup ? this->look_up(tape, w, {0, 1, 2, 3}) : w;
      tape.backward(ops::add(tape, std::vector{ops::sum(tape, used), ops::sum(tape, own)}));
    };
    backward();
    first.step(tape);
    auto const after_first = to_host(w);
    auto const message = this->said_by([&] { second.step(tape); });
    for (auto const& word : words) {
      EXPECT_THAT(message, HasSubstr(word));
    }
    EXPECT_THAT(message, AllOf(HasSubstr("is in two optimizers"), Not(HasSubstr("\"own\""))));
    EXPECT_EQ(this->said_by([&] { second.step(tape); }), message);
    EXPECT_EQ(to_host(w), after_first);
    EXPECT_THAT(to_host(own), Each(1.0F));
    // Each optimizer may step after a backward of its own, as when two losses of one model
    // alternate.
    backward();
    second.step(tape);
    EXPECT_NE(to_host(w), after_first);
    EXPECT_THAT(to_host(own), Each(0.5F));
    EXPECT_THAT(this->said_by([&] { first.step(tape); }), HasSubstr("is in two optimizers"));
    backward();
    first.step(tape);
  }
}

TYPED_TEST(OptimizerRefusalsTest, optimizers_that_take_turns_while_gradients_add_up) {
  auto const w = this->ones({2});
  Optimizer<TypeParam> first(this->device(), this->rule);
  Optimizer<TypeParam> second(this->device(), this->rule);
  first.add("w", w);
  second.add("w", w);
  GradientTape tape(this->device());
  tape.backward(ops::sum(tape, w));
  first.step(tape);
  tape.backward(ops::sum(tape, w));  // without clear() before
  second.step(tape);
  second.step(tape);  // one optimizer may step as often as it likes
  EXPECT_THAT(to_host(w), Each(-1.5F));
  EXPECT_THROW(tape.backward(w.rows(0, 1)), std::logic_error);  // fails without a gradient
  EXPECT_THAT(this->said_by([&] { first.step(tape); }), HasSubstr("in two optimizers"));
}

TYPED_TEST(OptimizerRefusalsTest, two_optimizers_that_move_nothing_twice) {
  auto const w = this->ones({4});
  auto const table = this->ones({4, 1});
  auto const shared = this->ones({2, 1});
  Optimizer<TypeParam> first(this->device(), this->rule);
  std::optional<Optimizer<TypeParam>> second(std::in_place, this->device(), this->rule);
  first.add("above", w.rows(0, 2));
  first.add_table("above table", table.rows(0, 2));
  first.add_table("shared", shared);  // not looked up by the first steps
  second->add("below", w.rows(2, 4));
  second->add_table("below table", table.rows(2, 4));
  second->add_table("shared", shared);
  GradientTape tape(this->device());
  auto const backward = [&](bool looks_up_shared) {
    tape.clear();
    std::vector terms{ops::sum(tape, w), ops::sum(tape, this->look_up(tape, table, {1, 2}))};
    if (looks_up_shared) {
      terms.push_back(this->looked_up_sum(tape, shared));
    }
    tape.backward(ops::add(tape, terms));
  };
  for (int i = 0; i < 2; ++i) {
    backward(false);
    first.step(tape);
    second->step(tape);
  }
  EXPECT_THAT(to_host(w), Each(0.0F));
  EXPECT_THAT(to_host(table), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(to_host(shared), Each(1.0F));
  backward(true);
  second->step(tape);
  EXPECT_THAT(this->said_by([&] { first.step(tape); }),
              AllOf(HasSubstr("table \"shared\""), Not(HasSubstr("above"))));
  second.reset();
  EXPECT_THAT(this->said_by([&] { first.step(tape); }), HasSubstr("table \"shared\""));
  // Adding a parameter makes two optimizers share an element that shared none before, whichever of
  // the two steps first.
  for (bool const adder_first : {false, true}) {
    second.emplace(this->device(), this->rule);
    second->add("below", w.rows(2, 4));
    for (auto const& [one, other] : {std::pair(&first, &*second), std::pair(&*second, &first)}) {
      backward(true);
      one->step(tape);
      other->step(tape);
    }
    second->add_table("late", table.rows(1, 2));
    backward(true);
    (adder_first ? *second : first).step(tape);
    EXPECT_THAT(this->said_by([&] { (adder_first ? first : *second).step(tape); }),
                AllOf(HasSubstr("\"above table\""), HasSubstr("\"late\" of shape [1, 1]")));
  }
}

TYPED_TEST(OptimizerRefusalsTest, captured_steps_of_two_optimizers) {
  auto const w = this->ones({2});
  auto const own = this->ones({2});
  Optimizer<TypeParam> first(this->device(), this->rule);
  Optimizer<TypeParam> second(this->device(), this->rule);
  Optimizer<TypeParam> apart(this->device(), this->rule);
  first.add("w", w);
  second.add("shared w", w);
  apart.add("own", own);
  GradientTape tape(this->device());
  auto const train = [&](auto& one, auto& other, bool with_a_backward_each) {
    auto const backward = [&] {
      tape.clear();
      tape.backward(ops::add(tape, std::vector{ops::sum(tape, w), ops::sum(tape, own)}));
    };
    backward();
    one.step(tape);
    if (with_a_backward_each) {
      backward();
    }
    other.step(tape);
    tape.clear();
  };
  train(first, apart, true);  // makes everything that is made on first use
  auto const capture = [&](auto& one, auto& other, bool with_a_backward_each) {
    return CapturedStep<TypeParam>(this->device(),
                                   [&] { train(one, other, with_a_backward_each); });
  };
  EXPECT_THAT(this->said_by([&] { (void)capture(first, second, false); }),
              AllOf(HasSubstr("\"shared w\" of shape [2] is in two optimizers"),
                    HasSubstr("as \"w\" of shape [2]")));
  EXPECT_THAT(to_host(w), Each(0.5F));
  auto disjoint = capture(first, apart, false);
  auto in_turn = capture(second, first, true);
  disjoint.replay();
  EXPECT_THAT(to_host(w), Each(0.0F));
  EXPECT_THAT(to_host(own), Each(0.0F));
  in_turn.replay();
  EXPECT_THAT(to_host(w), Each(-1.0F));
  train(second, apart, false);
  EXPECT_THAT(to_host(w), Each(-1.5F));
}

}  // namespace
}  // namespace msstream::testing
