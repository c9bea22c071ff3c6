// SPDX-License-Identifier: Apache-2.0
// Tests the strict mode of optimizers that were filled by patterns of names, and parameters that
// may lack a gradient.
#include "ops/ops_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameters.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Names = std::vector<std::string>;

template <class R>
class StrictModeTest : public OpsTest<R> {
 protected:
  static constexpr ops::OptimizerRule rule{
      .kind = ops::OptimizerKind::adamw, .learning_rate = 0.5F, .weight_decay = 0.1F};

  [[nodiscard]] static OptimizerOptions strict(Names may_lack_gradient = {}) {
    OptimizerOptions options;
    options.check_every_step = true;
    options.may_lack_gradient = std::move(may_lack_gradient);
    return options;
  }
  static std::string said_by(auto&& call) { return message_of<std::logic_error>(call); }
  /// Plays back the sum of the parameters and of row 1 of the tables.
  void backward(GradientTape<R>& tape, Parameters<R> const& parameters, Names const& names) {
    if (!row_) {
      row_.emplace(this->put(Integers{1}));
    }
    tape.clear();
    std::vector<Tensor<float, R>> terms;
    for (auto const& name : names) {
      auto const parameter = parameters.find(name);
      terms.push_back(ops::sum(
          tape,
          name.ends_with("table") ? ops::embedding_lookup(tape, parameter, {*row_}) : parameter));
    }
    tape.backward(ops::sum(tape, ops::add(tape, terms)));
  }
  [[nodiscard]] static std::vector<Floats> values(Parameters<R> const& parameters) {
    std::vector<Floats> all;
    for (auto const& entry : parameters.entries()) {
      all.push_back(to_host(parameters.find(entry.name)));
    }
    return all;
  }

 private:
  std::optional<Tensor<std::int64_t, R>> row_;  ///< made before any capture
};
TYPED_TEST_SUITE(StrictModeTest, Runtimes, RuntimeNames);

TYPED_TEST(StrictModeTest, every_gradient_has_an_owner) {
  Parameters parameters(this->device());
  auto const weight = parameters.dense("w", {3, 2});
  auto const own = this->put(Floats{1, 2}).reshaped({2, 1});
  auto const x = this->put(Floats(12, 0.5F)).reshaped({4, 3});
  auto options = this->strict();
  options.check_owners = true;
  Optimizer<TypeParam> optimizer(this->device(), this->rule, options);
  optimizer.add(parameters);
  GradientTape tape(this->device());
  bool is_excluded = false;
  auto const backward = [&] {
    tape.clear();
    if (is_excluded) {
      tape.without_gradient(x);
    }
    auto const product = ops::matmul(tape, ops::matmul(tape, x, weight), own);
    tape.backward(ops::sum(tape, product));
  };
  backward();
  EXPECT_THAT(this->said_by([&] { optimizer.step(tape); }),
              AllOf(HasSubstr("a tensor of shape [2, 1] has a gradient, and no optimizer has it"),
                    HasSubstr("a tensor of shape [4, 3] has a gradient")));
  is_excluded = true;
  backward();
  EXPECT_THAT(this->said_by([&] { optimizer.check(tape); }),
              AllOf(HasSubstr("[2, 1]"), Not(HasSubstr("[4, 3]"))));
  optimizer.add("own", own.rows(0, 1));
  EXPECT_THAT(this->said_by([&] { optimizer.check(tape); }),
              HasSubstr("[2, 1] has a gradient, and no optimizer has all of its elements"));
  optimizer.add("rest", own.rows(1, 2));
  optimizer.step(tape);
}

TYPED_TEST(StrictModeTest, optimizers_filled_by_patterns_name_what_the_store_got_later) {
  Parameters parameters(this->device());
  (void)parameters.dense("wide/w", {2, 1});
  (void)parameters.dense("deep/w", {2, 1});
  Optimizer<TypeParam> wide(this->device(), this->rule, this->strict());
  std::optional<Optimizer<TypeParam>> deep;
  deep.emplace(this->device(), this->rule, this->strict());
  wide.add(parameters, "wide/*", {.weight_decay = 0.0F});
  deep->add(parameters, "deep/*", {});
  GradientTape tape(this->device());
  auto const step = [&](Names const& names) {
    this->backward(tape, parameters, names);
    wide.step(tape);
    deep->step(tape);
  };
  step({"wide/w", "deep/w"});  // each optimizer knows the other's, which are of the same store

  (void)parameters.dense("wide/late", {2, 1});
  (void)parameters.table("cross/table", {3, 1});
  (void)parameters.dense("wide/unused", {1, 1});
  auto const before = this->values(parameters);
  auto const message = this->said_by([&] {
    step({"wide/w", "deep/w", "wide/late", "cross/table"});
  });
  EXPECT_THAT(
      message,
      AllOf(HasSubstr("\"wide/late\" of shape [2, 1] has a gradient, and no optimizer has "
                      "it: it was made after its Parameters were added; call add() again"),
            HasSubstr("\"cross/table\" of shape [3, 1] has a gradient, and no optimizer has "
                      "it: no pattern"),
            HasSubstr("\"wide/unused\" of shape [1, 1] has no gradient (the loss does not"),
            Not(HasSubstr("/w\"")),
            Not(HasSubstr("was looked up"))));
  EXPECT_EQ(this->said_by([&] { wide.check(tape); }), message);
  EXPECT_THAT(this->said_by([&] { deep->step(tape); }), HasSubstr("\"wide/late\" of shape [2, 1]"));
  EXPECT_EQ(this->values(parameters), before);

  wide.add(parameters, "wide/*", {.weight_decay = 0.0F});  // takes the late ones
  deep->add(parameters, "cross/*", {});
  Names const all{"wide/w", "deep/w", "wide/late", "cross/table", "wide/unused"};
  step(all);
  expect_refused(
      [&] { wide.add(parameters, "*/late", {}); }, "\"wide/late\" already", "\"*/late\"");
  deep.reset();
  this->backward(tape, parameters, all);
  EXPECT_THAT(this->said_by([&] { wide.check(tape); }),
              AllOf(HasSubstr("\"deep/w\""), HasSubstr("\"cross/table\"")));
  parameters.freeze("deep/*");
  parameters.freeze("cross/*");
  this->backward(tape, parameters, all);
  wide.step(tape);
}

TYPED_TEST(StrictModeTest, a_late_table_whose_lookup_is_cut_off_is_named_once) {
  Parameters parameters(this->device());
  auto const w = parameters.dense("w", {2, 1});
  Optimizer<TypeParam> optimizer(this->device(), this->rule, this->strict());
  optimizer.add(parameters);
  auto const late = parameters.table("late", {3, 1});
  GradientTape tape(this->device());
  (void)ops::embedding_lookup(tape, late, {this->put(Integers{1})});
  tape.backward(ops::sum(tape, w));
  auto const message = this->said_by([&] { optimizer.step(tape); });
  EXPECT_THAT(message,
              HasSubstr("\"late\" of shape [3, 1] has no gradient (it was looked up, but"));
  EXPECT_THAT(message, Not(HasSubstr("a table of shape")));
}

TYPED_TEST(StrictModeTest, what_may_lack_a_gradient_rests_meanwhile) {
  Names const task_a{"shared/w", "a/w", "a/table"};
  Names const task_b{"shared/w", "b/w", "b/table"};
  struct Model {
    Parameters<TypeParam> parameters;
    Optimizer<TypeParam> optimizer;
    GradientTape<TypeParam> tape;

    Model(Device<TypeParam> const& device, OptimizerOptions const& options)
        : parameters(device, {.seed = 3}),
          optimizer(device, TestFixture::rule, options),
          tape(device) {
      for (auto const* const name : {"shared/w", "a/w", "b/w"}) {
        (void)parameters.dense(name, {4, 2});
      }
      (void)parameters.table("a/table", {3, 2});
      (void)parameters.table("b/table", {3, 2});
      optimizer.add(parameters);
    }
    [[nodiscard]] Floats of(char const* name) const { return to_host(parameters.find(name)); }
  };
  Model model(this->device(), this->strict({"a/*", "b/*"}));
  auto const step = [&](Model& of, Names const& names) {
    this->backward(of.tape, of.parameters, names);
    of.optimizer.step(of.tape);
    of.tape.clear();
  };
  step(model, task_a);
  step(model, task_b);  // now b has moments
  auto const shared = model.of("shared/w");
  auto const b = model.of("b/w");
  auto const table = model.of("b/table");
  step(model, task_a);
  EXPECT_NE(model.of("shared/w"), shared);
  EXPECT_EQ(model.of("b/w"), b) << "neither moments nor weight decay move it";
  EXPECT_EQ(model.of("b/table"), table);
  step(model, task_b);
  EXPECT_NE(model.of("b/w"), b);
  EXPECT_NE(model.of("b/table"), table);
  EXPECT_EQ(model.optimizer.status().steps, 4);

  // The others are named as before, and nothing moves.
  auto const before = this->values(model.parameters);
  EXPECT_THAT(
      this->said_by([&] { step(model, {"a/w"}); }),
      AllOf(HasSubstr("\"shared/w\" of shape [4, 2] has no gradient"), Not(HasSubstr("\"b/"))));
  model.tape.clear();
  Model plain(this->device(), {});
  EXPECT_THAT(this->said_by([&] { step(plain, task_a); }),
              AllOf(HasSubstr("\"b/w\" of shape [4, 2] has no gradient"), Not(HasSubstr("table"))));
  EXPECT_EQ(this->values(model.parameters), before);

  if constexpr (CapturingRuntime<TypeParam>) {
    Model captured(this->device(), this->strict({"?/*"}));
    step(captured, task_a);
    step(captured, task_b);
    CapturedStep<TypeParam> of_a(this->device(), [&] { step(captured, task_a); });
    CapturedStep<TypeParam> of_b(this->device(), [&] { step(captured, task_b); });
    of_a.replay();
    of_b.replay();
    EXPECT_EQ(this->values(captured.parameters), before);
  }
}

TYPED_TEST(StrictModeTest, a_pattern_that_matches_nothing_is_named_before_anything_moves) {
  Parameters parameters(this->device());
  (void)parameters.dense("a/w", {2, 1});
  (void)parameters.dense("b/w", {2, 1});
  OptimizerOptions options;
  options.may_lack_gradient = {"b/*", "c/*"};
  Optimizer<TypeParam> optimizer(this->device(), this->rule, options);
  optimizer.add(parameters, "a/*", {});
  GradientTape tape(this->device());
  this->backward(tape, parameters, {"a/w"});
  auto const before = this->values(parameters);
  auto const expected =
      AllOf(HasSubstr("\"c/*\" of may_lack_gradient matches the whole name of no"),
            Not(HasSubstr("\"b/*\"")));
  EXPECT_THAT(this->said_by([&] { optimizer.step(tape); }), expected);
  EXPECT_THAT(this->said_by([&] { optimizer.check(tape); }), expected);
  EXPECT_EQ(this->values(parameters), before);
  (void)parameters.dense("c/w", {2, 1});  // which no optimizer has
  EXPECT_TRUE(optimizer.step(tape));
  EXPECT_NE(this->values(parameters)[0], before[0]);
}

TYPED_TEST(StrictModeTest, parameters_are_added_after_the_model_is_made) {
  Parameters parameters(this->device());
  (void)parameters.buffer("running", {2});
  Optimizer<TypeParam> optimizer(this->device(), this->rule);
  EXPECT_THAT(message_of<std::invalid_argument>([&] { optimizer.add(parameters); }),
              HasSubstr("Optimizer::add: the Parameters have no dense parameters and no tables"));
  (void)parameters.dense("w", {2, 1});
  parameters.freeze("*");
  optimizer.add(parameters);  // nothing to train is right for what is frozen
}

TYPED_TEST(StrictModeTest, a_step_in_which_all_rest_counts) {
  Parameters parameters(this->device());
  (void)parameters.dense("w", {2, 1});
  (void)parameters.table("table", {2, 1});
  auto options = this->strict({"*"});
  options.clip_norm = 1.0F;
  options.skip_non_finite = true;
  Optimizer<TypeParam> optimizer(this->device(), this->rule, options);
  optimizer.add(parameters);
  (void)parameters.dense("target/w", {2, 1});  // never has a gradient, and needs no optimizer
  auto const before = this->values(parameters);
  GradientTape tape(this->device());
  auto const x = this->put(Floats{1.0F}, {1});
  tape.backward(ops::sum(tape, x));
  EXPECT_TRUE(optimizer.step(tape));
  EXPECT_EQ(this->values(parameters), before);
  EXPECT_EQ(optimizer.status().steps, 1);
  EXPECT_EQ(optimizer.status().skipped, 0);
}

TYPED_TEST(StrictModeTest, two_optimizers_share_what_only_one_of_them_moves) {
  Parameters parameters(this->device());
  auto const w = parameters.dense("w", {4, 1});
  Optimizer<TypeParam> first(this->device(), this->rule, this->strict({"w"}));
  Optimizer<TypeParam> second(this->device(), this->rule, this->strict({"w"}));
  first.add(parameters);
  second.add(parameters);
  GradientTape tape(this->device());
  auto const x = this->put(Floats{1.0F}, {1});
  tape.backward(ops::sum(tape, x));
  first.step(tape);
  second.step(tape);
  tape.clear();
  tape.backward(ops::sum(tape, w));
  first.step(tape);
  EXPECT_THAT(this->said_by([&] { second.step(tape); }),
              HasSubstr("\"w\" of shape [4, 1] is in two"));
}

}  // namespace
}  // namespace msstream::testing
