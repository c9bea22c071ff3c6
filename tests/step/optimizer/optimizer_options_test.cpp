// SPDX-License-Identifier: Apache-2.0
// Tests schedules, clipping, groups, micro-batches and the rules in whole training steps: eager,
// captured, on several groups, and resumed.
#include "ops/optimizer/optimizer_reference.hpp"
#include "step/optimizer/trained_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace msstream::testing {
namespace {

using ops::OptimizerKind;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class R>
class OptimizerOptionsTest : public OpsTest<R> {
 protected:
  [[nodiscard]] static ops::OptimizerRule rule_of(OptimizerKind kind) {
    ops::OptimizerRule rule{.kind = kind, .learning_rate = 0.03F};
    rule.weight_decay = 0.01F;
    rule.clip_value = 0.05F;
    return rule;
  }
  [[nodiscard]] static OptimizerOptions options_with(Schedule schedule) {
    OptimizerOptions options;
    options.schedule = std::move(schedule);
    options.clip_norm = 0.1F;
    return options;
  }
  /// Returns the loss of each update, and then the parameters.
  [[nodiscard]] Floats trained(ops::OptimizerRule const& rule,
                               OptimizerOptions const& options,
                               int groups,
                               bool captured,
                               int micro_batches = 1) {
    TrainedModel<R> model(
        this->device(), groups, rule, options, ops::ParameterGroup{0.5F, 0.0F, 1.0F});
    Floats result;
    model.train(result, 6, captured, micro_batches, [&](int step) {
      if (step == 4) {
        model.optimizer().set_learning_rate(0.07F);
      }
    });
    auto const parameters = model.parameters();
    result.insert(result.end(), parameters.begin(), parameters.end());
    return result;
  }
  [[nodiscard]] Tensor<float, R> ones(Shape const& shape) const {
    return this->put(Floats(static_cast<std::size_t>(shape.count()), 1.0F), shape);
  }
};
TYPED_TEST_SUITE(OptimizerOptionsTest, Runtimes, RuntimeNames);

TYPED_TEST(OptimizerOptionsTest, every_rule_gives_the_same_bits_however_the_steps_are_issued) {
  auto const options = this->options_with(
      Schedule::cosine({.steps = 8, .end = 0.1F, .warmup = {.steps = 3, .from = 0.2F}}));
  auto together = options;
  together.tables_together = true;
  for (auto const kind : ops::kernels::testing::kAllOptimizerKinds) {
    SCOPED_TRACE(ops::name_of(kind));
    auto const rule = this->rule_of(kind);
    auto const expected = this->trained(rule, options, 1, false);
    ASSERT_TRUE(std::ranges::all_of(expected, [](float x) { return std::isfinite(x); }));
    EXPECT_EQ(this->trained(rule, options, 4, false), expected);
    EXPECT_EQ(this->trained(rule, together, 8, false), expected);
    if constexpr (CapturingRuntime<TypeParam>) {
      EXPECT_EQ(this->trained(rule, options, 1, true), expected);
      EXPECT_EQ(this->trained(rule, options, 3, true), expected);
    }
  }
}

TYPED_TEST(OptimizerOptionsTest, each_schedule_gives_the_same_bits_however_the_steps_are_issued) {
  auto const rule = this->rule_of(OptimizerKind::adamw);
  for (auto const& schedule :
       {Schedule::constant({.steps = 3}),
        Schedule::step_decay({.every = 2, .factor = 0.5F, .warmup = {.steps = 1}}),
        Schedule::polynomial({.steps = 5, .power = 2.0F, .warmup = {.steps = 2, .power = 0.5F}}),
        Schedule::tabulated(4, [](std::int64_t step) { return 1.0 / (1.0 + 3.0 * step); })}) {
    for (int const micro_batches : {1, 3}) {
      auto options = this->options_with(schedule);
      options.micro_batches = micro_batches;
      auto const expected = this->trained(rule, options, 1, false, micro_batches);
      for (int const groups : {2, 5, 8}) {
        EXPECT_EQ(this->trained(rule, options, groups, false, micro_batches), expected);
        if constexpr (CapturingRuntime<TypeParam>) {
          EXPECT_EQ(this->trained(rule, options, groups, true, micro_batches), expected);
        }
      }
    }
  }
}

TYPED_TEST(OptimizerOptionsTest, a_resumed_run_gives_the_same_bits) {
  for (auto const kind : ops::kernels::testing::kAllOptimizerKinds) {
    SCOPED_TRACE(ops::name_of(kind));
    auto const options =
        this->options_with(Schedule::polynomial({.steps = 9, .warmup = {.steps = 2}}));
    TrainedModel<TypeParam> whole(this->device(), 3, this->rule_of(kind), options);
    Floats losses;
    whole.train(losses, 2);
    whole.optimizer().set_learning_rate(0.08F);
    whole.train(losses, 2);
    auto const saved = whole.saved();
    losses.clear();
    whole.train(losses, 4);
    TrainedModel<TypeParam> resumed(this->device(), 2, this->rule_of(kind), options);
    resumed.load(saved);
    EXPECT_EQ(resumed.optimizer().status().steps, 4);
    Floats losses_of_resumed;
    resumed.train(losses_of_resumed, 4);
    EXPECT_EQ(losses_of_resumed, losses);
    EXPECT_EQ(resumed.parameters(), whole.parameters());
  }
}

TYPED_TEST(OptimizerOptionsTest, the_rate_follows_the_schedule_and_what_is_set) {
  auto const w = this->ones({3});
  OptimizerOptions options;
  options.schedule = Schedule::step_decay({.every = 2, .factor = 0.5F});
  Optimizer<TypeParam> optimizer(
      this->device(), {.kind = OptimizerKind::sgd, .learning_rate = 0.25F}, options);
  optimizer.add("w", w);
  EXPECT_EQ(optimizer.status().learning_rate, 0.25F);
  EXPECT_EQ(optimizer.status().steps, 0);
  GradientTape tape(this->device());
  auto const step = [&] {
    tape.backward(ops::sum(tape, w));
    EXPECT_TRUE(optimizer.step(tape));
    tape.clear();
    return optimizer.status().learning_rate;
  };
  EXPECT_EQ(step(), 0.25F);
  EXPECT_EQ(step(), 0.25F);
  EXPECT_EQ(step(), 0.125F);
  optimizer.set_learning_rate(1.0F);
  EXPECT_EQ(optimizer.status().learning_rate, 0.125F) << "that of the last step";
  EXPECT_EQ(step(), 0.5F);
  EXPECT_EQ(step(), 0.25F);
  EXPECT_THAT(to_host(w), Each(1.0F - 0.25F - 0.25F - 0.125F - 0.5F - 0.25F));
  expect_refused([&] { optimizer.set_learning_rate(-1.0F); }, "learning_rate of -1", "[0, inf");
  expect_refused([&] { optimizer.set_learning_rate(std::nanf("")); }, "learning_rate of nan");
  EXPECT_EQ(optimizer.status().steps, 5);
  EXPECT_EQ(optimizer.status().gradient_norm, 0.0);
}

TYPED_TEST(OptimizerOptionsTest, a_norm_covers_dense_gradients_and_rows) {
  auto const w = this->ones({2});
  auto const table = this->ones({4, 1});
  OptimizerOptions options;
  options.clip_norm = 2.5F;
  Optimizer<TypeParam> optimizer(
      this->device(), {.kind = OptimizerKind::sgd, .learning_rate = 1.0F}, options);
  optimizer.add("w", w);
  optimizer.add_table("table", table);
  GradientTape tape(this->device());
  auto const rows = ops::embedding_lookup(tape, table, {this->put(Integers{1, 2, 1, 1})});
  // The gradients are (3, 3) of w, 3 of row 1, which three ids have, and 1 of row 2; with another
  // lookup of row 2 it is 3 too, and the norm is 6.
  auto const more = ops::scale(
      tape, ops::sum(tape, ops::embedding_lookup(tape, table, {this->put(Integers{2})})), 2.0F);
  tape.backward(ops::add(
      tape, std::vector{ops::scale(tape, ops::sum(tape, w), 3.0F), ops::sum(tape, rows), more}));
  optimizer.step(tape);
  EXPECT_DOUBLE_EQ(optimizer.status().gradient_norm, 6.0);
  auto const moved = 1.0F - 3.0F * static_cast<float>(2.5 / 6.0);
  EXPECT_THAT(to_host(w), Each(moved));
  EXPECT_THAT(to_host(table), ElementsAre(1.0F, moved, moved, 1.0F));
}

TYPED_TEST(OptimizerOptionsTest, groups_have_their_own_numbers) {
  ops::OptimizerRule rule{.kind = OptimizerKind::sgd, .learning_rate = 0.5F};
  rule.weight_decay = 0.25F;
  Optimizer<TypeParam> optimizer(this->device(), rule);
  std::vector<Tensor<float, TypeParam>> parameters;
  std::vector<Tensor<float, TypeParam>> tables;
  std::vector<ops::ParameterGroup> const groups = {
      {}, {.learning_rate = 0.5F}, {.weight_decay = 0.0F}, {.clip_value = 0.5F}};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    parameters.push_back(this->ones({3}));
    tables.push_back(this->ones({2, 2}));
    optimizer.add(fmt::format("w{}", i), parameters.back(), groups[i]);
    optimizer.add_table(fmt::format("t{}", i), tables.back(), groups[i]);
  }
  GradientTape tape(this->device());
  std::vector<Tensor<float, TypeParam>> losses;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    losses.push_back(ops::sum(tape, parameters[i]));
    losses.push_back(
        ops::sum(tape, ops::embedding_lookup(tape, tables[i], {this->put(Integers{1})})));
  }
  tape.backward(ops::add(tape, losses));
  optimizer.step(tape);
  std::vector<float> const moved = {
      1.0F - 0.5F * 1.25F, 1.0F - 0.25F * 1.25F, 0.5F, 1.0F - 0.5F * 0.75F};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_THAT(to_host(parameters[i]), Each(moved[i]));
    EXPECT_THAT(to_host(tables[i]), ElementsAre(1.0F, 1.0F, moved[i], moved[i]));
  }
}

TYPED_TEST(OptimizerOptionsTest, micro_batches_move_by_the_mean_of_their_gradients) {
  auto const w = this->ones({2});
  auto const table = this->ones({4, 1});
  OptimizerOptions options;
  options.micro_batches = 4;
  options.check_every_step = true;
  Optimizer<TypeParam> optimizer(
      this->device(), {.kind = OptimizerKind::sgd, .learning_rate = 1.0F}, options);
  optimizer.add("w", w);
  optimizer.add_table("table", table);
  GradientTape tape(this->device());
  for (int update = 0; update < 2; ++update) {
    for (int i = 0; i < 4; ++i) {
      auto const rows = ops::embedding_lookup(tape, table, {this->put(Integers{i / 2})});
      tape.backward(ops::add(tape,
                             std::vector{ops::scale(tape, ops::sum(tape, w), static_cast<float>(i)),
                                         ops::sum(tape, rows)}));
      EXPECT_EQ(tape.backward_count(), i + 1);
      EXPECT_EQ(optimizer.step(tape), i == 3);
    }
    tape.clear();
  }
  EXPECT_EQ(optimizer.status().steps, 2);
  EXPECT_THAT(to_host(w), Each(1.0F - 2 * 6.0F / 4.0F));
  EXPECT_THAT(to_host(table), ElementsAre(0.0F, 0.0F, 1.0F, 1.0F));
}

TYPED_TEST(OptimizerOptionsTest, micro_batches_are_captured_together_or_refused) {
  if constexpr (CapturingRuntime<TypeParam>) {
    auto const w = this->ones({2});
    OptimizerOptions options;
    options.micro_batches = 2;
    Optimizer<TypeParam> optimizer(
        this->device(), {.kind = OptimizerKind::sgd, .learning_rate = 1.0F}, options);
    optimizer.add("w", w);
    GradientTape tape(this->device());
    auto const micro_batch = [&] {
      tape.backward(ops::sum(tape, w));
      if (optimizer.step(tape)) {
        tape.clear();
      }
    };
    auto const capture_one = [&] { CapturedStep<TypeParam> one(this->device(), micro_batch); };
    // One of two, whose replays would never update.
    EXPECT_THAT(message_of<std::logic_error>(capture_one),
                HasSubstr("a capture ends after micro-batch 1 of 2"));
    EXPECT_THAT(message_of<std::logic_error>(micro_batch),
                HasSubstr("micro-batch 2 of 2 is outside a capture"));
    tape.clear();
    // The second of two, whose replays would use the gradient of the first again.
    micro_batch();
    EXPECT_THAT(message_of<std::logic_error>(capture_one),
                HasSubstr("micro-batch 2 of 2 is inside a capture"));
    EXPECT_THAT(to_host(w), Each(1.0F));
  }
}

TYPED_TEST(OptimizerOptionsTest, micro_batches_can_be_captured_after_a_capture_of_one_was_refused) {
  if constexpr (CapturingRuntime<TypeParam>) {
    auto const w = this->ones({2});
    OptimizerOptions options;
    options.micro_batches = 2;
    Optimizer<TypeParam> optimizer(
        this->device(), {.kind = OptimizerKind::sgd, .learning_rate = 1.0F}, options);
    optimizer.add("w", w);
    GradientTape tape(this->device());
    auto const micro_batch = [&] {
      tape.backward(ops::sum(tape, w));
      if (optimizer.step(tape)) {
        tape.clear();
      }
    };
    EXPECT_THROW(CapturedStep<TypeParam>(this->device(), micro_batch), std::logic_error);
    tape.clear();
    micro_batch();
    micro_batch();
    EXPECT_THAT(to_host(w), Each(0.0F));
    CapturedStep<TypeParam> both(this->device(), [&] {
      micro_batch();
      micro_batch();
    });
    both.replay();
    both.replay();
    EXPECT_THAT(to_host(w), Each(-2.0F));
  }
}

TYPED_TEST(OptimizerOptionsTest, the_strict_mode_checks_every_step) {
  auto const w = this->ones({2});
  auto const table = this->ones({4, 1});
  OptimizerOptions options;
  options.check_every_step = true;
  Optimizer<TypeParam> optimizer(
      this->device(), {.kind = OptimizerKind::sgd, .learning_rate = 0.5F}, options);
  optimizer.add("w", w);
  optimizer.add_table("table", table);
  GradientTape tape(this->device());
  auto const step = [&](bool looks_up) {
    tape.clear();
    std::vector terms{ops::sum(tape, w)};
    if (looks_up) {
      terms.push_back(ops::sum(tape, ops::embedding_lookup(tape, table, {this->put(Integers{0})})));
    }
    tape.backward(ops::add(tape, terms));
    optimizer.step(tape);
  };
  step(true);
  EXPECT_THAT(message_of<std::logic_error>([&] { step(false); }),
              HasSubstr("table \"table\" of shape [4, 1] has no gradient"));
  EXPECT_THAT(to_host(w), Each(0.5F));
}

TYPED_TEST(OptimizerOptionsTest, numbers_out_of_range_are_refused_by_name) {
  auto const make = [&](auto change) {
    ops::OptimizerRule rule{.kind = OptimizerKind::adam, .learning_rate = 0.1F};
    OptimizerOptions options;
    change(rule, options);
    Optimizer<TypeParam>(this->device(), rule, options);
  };
  auto const refused = [&](auto change, auto const&... words) {
    expect_refused([&] { make(change); }, "Optimizer", words...);
  };
  refused([](auto& rule, auto&) { rule.weight_decay = -1.0F; }, "weight_decay of -1");
  refused([](auto& rule, auto&) { rule.clip_value = 0.0F; }, "clip_value of 0", "(0, infinity]");
  refused([](auto& rule, auto&) { rule.clip_value = std::nanf(""); }, "clip_value");
  refused([](auto& rule, auto&) { rule.l1 = 0.5F; }, "l1 of 0.5", "adam", "only ftrl");
  refused([](auto& rule, auto&) { rule.ftrl_beta = -1.0F; }, "ftrl_beta of -1");
  refused([](auto& rule, auto&) { rule.kind = static_cast<OptimizerKind>(11); }, "number 11");
  refused([](auto&, auto& options) { options.clip_norm = 0.0F; }, "clip_norm of 0");
  refused([](auto&, auto& options) { options.clip_norm = std::nanf(""); }, "clip_norm of nan");
  refused([](auto&, auto& options) { options.micro_batches = 0; }, "micro_batches of 0");
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = OptimizerKind::adam, .learning_rate = 0.1F});
  auto const w = this->ones({2});
  auto const refused_group = [&](ops::ParameterGroup const& group, char const* words) {
    expect_refused([&] { optimizer.add("w", w, group); }, "\"w\"", words);
  };
  refused_group({.learning_rate = -1.0F}, "learning_rate of a group of -1");
  refused_group({.weight_decay = std::nanf("")}, "weight_decay of a group");
  refused_group({.clip_value = -2.0F}, "clip_value of -2");
  optimizer.add("w", w);
}

TYPED_TEST(OptimizerOptionsTest, counters_of_operations_follow_a_schedule_too) {
  auto const w = this->ones({2});
  ops::OptimizerRule const rule{.kind = OptimizerKind::sgd, .learning_rate = 0.5F};
  ops::StepCounter counter(this->device(), Schedule::step_decay({.every = 1, .factor = 0.5F}));
  std::vector const parameters{
      ops::DenseParameter<TypeParam>{w, this->ones({2}), ops::OptimizerState<TypeParam>{}}};
  ops::update_dense(rule, counter, parameters);  // before the first step: the rule's rate
  EXPECT_THAT(to_host(w), Each(0.5F));
  counter.advance(rule);
  ops::update_dense(rule, counter, parameters);
  counter.advance(rule);
  ops::update_dense(rule, counter, parameters);
  EXPECT_THAT(to_host(w), Each(0.5F - 0.5F - 0.25F));
  counter.set_rate(8.0F);
  counter.advance(rule);
  ops::update_dense(rule, counter, parameters);
  EXPECT_THAT(to_host(w), Each(-0.25F - 0.5F * 8.0F * 0.25F));
}

TYPED_TEST(OptimizerOptionsTest, the_rate_that_was_set_is_known_before_the_first_step) {
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = OptimizerKind::sgd, .learning_rate = 1.0F});
  EXPECT_EQ(optimizer.status().learning_rate, 1.0F);
  optimizer.set_learning_rate(0.5F);
  EXPECT_EQ(optimizer.status().learning_rate, 0.5F);
}

TYPED_TEST(OptimizerOptionsTest, numbers_that_a_rule_does_not_have_are_refused) {
  auto const refused = [&](OptimizerKind kind, auto&& change, char const* words) {
    ops::OptimizerRule rule{.kind = kind, .learning_rate = 1.0F};
    change(rule);
    expect_refused([&] { Optimizer<TypeParam>(this->device(), rule); }, words, ops::name_of(kind));
  };
  auto const beta1 = [](auto& rule) { rule.beta1 = 0.5F; };
  auto const beta2 = [](auto& rule) { rule.beta2 = 0.5F; };
  auto const ftrl_beta = [](auto& rule) { rule.ftrl_beta = 0.5F; };
  for (auto const kind : {OptimizerKind::sgd, OptimizerKind::adagrad, OptimizerKind::ftrl}) {
    refused(kind, beta1, "beta1 of 0.5");
    refused(kind, beta2, "beta2 of 0.5");
  }
  refused(OptimizerKind::rmsprop, beta1, "beta1 of 0.5");
  refused(OptimizerKind::momentum, beta2, "beta2 of 0.5");
  refused(OptimizerKind::adam, ftrl_beta, "ftrl_beta of 0.5");
  for (auto const kind : ops::kernels::testing::kAllOptimizerKinds) {
    if (kind == OptimizerKind::sgd || kind == OptimizerKind::momentum ||
        kind == OptimizerKind::lion || kind == OptimizerKind::ftrl) {
      refused(
          kind, [](auto& rule) { rule.epsilon = 0.5F; }, "epsilon of 0.5");
    } else {
      ops::require_rule("none", {.kind = kind, .learning_rate = 1.0F, .epsilon = 0.5F});
    }
  }
}

TYPED_TEST(OptimizerOptionsTest, a_step_whose_norm_is_not_finite_changes_nothing) {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  auto const infinity = std::numeric_limits<float>::infinity();
  for (auto const kind : ops::kernels::testing::kAllOptimizerKinds) {
    for (auto const& [clip_norm, clip_value] :
         {std::pair{infinity, infinity}, {0.5F, infinity}, {infinity, 0.25F}, {0.5F, 0.25F}}) {
      for (bool const together : {false, true}) {
        SCOPED_TRACE(ops::name_of(kind));
        auto const w = this->ones({3});
        auto const table = this->ones({4, 4});
        auto const narrow = this->ones({4, 1});
        auto const factor = this->ones({1});
        OptimizerOptions options;
        options.clip_norm = clip_norm;
        options.skip_non_finite = true;
        options.tables_together = together;
        Optimizer<TypeParam> optimizer(
            this->device(),
            {.kind = kind, .learning_rate = 0.1F, .clip_value = clip_value},
            options);
        optimizer.add("w", w);
        optimizer.add_table("table", table);
        optimizer.add_table("narrow", narrow);
        GradientTape tape(this->device());
        auto const ids = this->put(Integers{1, 3});
        auto const step = [&] {
          tape.without_gradient(factor);
          auto const sum =
              ops::add(tape,
                       std::vector{ops::sum(tape, w),
                                   ops::sum(tape, ops::embedding_lookup(tape, table, {ids})),
                                   ops::sum(tape, ops::embedding_lookup(tape, narrow, {ids}))});
          tape.backward(ops::sum(tape, ops::multiply(tape, sum.reshaped({1}), factor)));
          EXPECT_TRUE(optimizer.step(tape));
          tape.clear();
        };
        auto const everything = [&] {
          std::vector<Floats> all{to_host(w), to_host(table), to_host(narrow)};
          optimizer.visit_state([&](std::string const& name, auto const& tensor) {
            if constexpr (std::same_as<decltype(to_host(tensor)), Floats>) {
              if (name != "optimizer/step") {
                all.push_back(to_host(tensor));
              }
            }
          });
          return all;
        };
        auto const with_factor = [&](float value, auto&& run) {
          copy(factor, this->put(Floats{value}, {1}));
          run();
        };
        auto const expect_skips = [&](auto&& run) {
          with_factor(1.0F, run);
          auto const before = everything();
          auto const status = optimizer.status();
          with_factor(nan, run);
          with_factor(infinity, run);
          EXPECT_EQ(everything(), before);
          auto const after = optimizer.status();
          EXPECT_EQ(after.steps, status.steps);
          EXPECT_EQ(after.skipped, status.skipped + 2);
          EXPECT_FALSE(std::isfinite(after.gradient_norm));
          with_factor(2.0F, run);
          EXPECT_NE(everything(), before);
          EXPECT_EQ(optimizer.status().steps, status.steps + 1);
          EXPECT_TRUE(std::isfinite(optimizer.status().gradient_norm));
        };
        expect_skips(step);
        if constexpr (CapturingRuntime<TypeParam>) {
          CapturedStep<TypeParam> captured(this->device(), step);
          expect_skips([&] { captured.replay(); });
        }
      }
    }
  }
}

}  // namespace
}  // namespace msstream::testing
