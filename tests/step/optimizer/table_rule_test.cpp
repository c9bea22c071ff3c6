// SPDX-License-Identifier: Apache-2.0
// Tests optimizers with a rule of their own for tables.
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "ops/optimizer/optimizer_reference.hpp"
#include "step/optimizer/trained_model.hpp"

#include <msstream/step/parameters.hpp>

#include <stdexcept>

namespace msstream::testing {
namespace {

using ops::OptimizerKind;
using ops::OptimizerRule;

template <class R>
class TableRuleTest : public OpsTest<R> {
 protected:
  static constexpr OptimizerRule kDense{
      .kind = OptimizerKind::adamw, .learning_rate = 0.125F, .weight_decay = 0.01F};
  static constexpr OptimizerRule kTables{
      .kind = OptimizerKind::rowwise_adagrad, .learning_rate = 0.5F, .clip_value = 0.05F};

  /// A tower and two tables, with the same values each time.
  struct Model {
    explicit Model(Device<R> const& device) : parameters(device, {.seed = 3}), tape(device) {
      w = parameters.dense("w", {4, 1}, init::uniform(-1.0F, 1.0F));
      users = parameters.table("users", {6, 2}, init::uniform(-1.0F, 1.0F));
      items = parameters.table("items", {6, 2}, init::uniform(-1.0F, 1.0F));
    }
    void backward(Tensor<std::int64_t, R> const& ids) {
      auto const user = ops::embedding_lookup(tape, *users, ops::Bags<R>(ids), {});
      auto const item = ops::embedding_lookup(tape, *items, ops::Bags<R>(ids), {});
      tape.backward(ops::sum(tape, ops::matmul(tape, ops::concat(tape, {user, item}), *w)));
    }
    [[nodiscard]] std::vector<Floats> values() const {
      return {to_host(*w), to_host(*users), to_host(*items)};
    }

    Parameters<R> parameters;
    GradientTape<R> tape;
    std::optional<Tensor<float, R>> w, users, items;
  };

  [[nodiscard]] Tensor<std::int64_t, R> ids() const {
    return to_device<std::int64_t, R>(this->device(), {0, 3, 3, 5}, {2, 2});
  }
};
TYPED_TEST_SUITE(TableRuleTest, Runtimes, RuntimeNames);

TYPED_TEST(TableRuleTest, gives_the_bits_of_an_optimizer_for_each_rule) {
  using Model = typename TestFixture::Model;
  Model one(this->device());
  OptimizerOptions options;
  options.table_rule = this->kTables;
  options.check_every_step = true;
  options.schedule = Schedule::step_decay({.every = 2, .factor = 0.5F});
  Optimizer<TypeParam> optimizer(this->device(), this->kDense, options);
  optimizer.add(one.parameters);

  Model two(this->device());
  OptimizerOptions alone;
  alone.schedule = options.schedule;
  Optimizer<TypeParam> dense(this->device(), this->kDense, alone);
  Optimizer<TypeParam> tables(this->device(), this->kTables, alone);
  dense.add("w", *two.w);
  tables.add_table("users", *two.users);
  tables.add_table("items", *two.items);
  for (int step = 0; step < 5; ++step) {
    if (step == 3) {
      optimizer.set_learning_rate(0.25F);
      dense.set_learning_rate(0.25F);
      tables.set_learning_rate(1.0F);  // keeps its ratio
    }
    auto const ids = this->ids();
    one.backward(ids);
    optimizer.step(one.tape);
    one.tape.clear();
    two.backward(ids);
    dense.step(two.tape);
    tables.step(two.tape);
    two.tape.clear();
    EXPECT_EQ(one.values(), two.values()) << step;
  }
  EXPECT_NE(one.values(), Model(this->device()).values());
}

TYPED_TEST(TableRuleTest, the_norm_covers_both_and_each_rule_clips_its_own_elements) {
  auto const w = this->put(Floats{1.0F, 1.0F}, {2, 1});
  auto const table = this->put(Floats{1.0F, 1.0F}, {1, 2});
  OptimizerOptions options;
  options.clip_norm = 2.5F;
  options.table_rule =
      OptimizerRule{.kind = OptimizerKind::sgd, .learning_rate = 0.5F, .clip_value = 3.0F};
  Optimizer<TypeParam> optimizer(
      this->device(), {.kind = OptimizerKind::sgd, .learning_rate = 1.0F}, options);
  optimizer.add("w", w);
  optimizer.add_table("table", table);
  GradientTape tape(this->device());
  auto const bags =
      ops::Bags<TypeParam>(to_device<std::int64_t, TypeParam>(this->device(), {0}, {1, 1}));
  auto const rows = ops::embedding_lookup(tape, table, bags, {});
  auto const scaled = ops::scale(tape, ops::sum(tape, rows), 8.0F);
  tape.backward(ops::add(tape, scaled, ops::scale(tape, ops::sum(tape, w), 2.0F)));
  optimizer.step(tape);
  // Gradients (2, 2) of the weights and (8, 8), clipped to (3, 3), of the row: the norm is that of
  // both together, sqrt(4 + 4 + 9 + 9).
  auto const norm = std::sqrt(26.0);
  EXPECT_NEAR(optimizer.status().gradient_norm, norm, 1e-12);
  for (float const value : to_host(w)) {
    EXPECT_NEAR(value, 1.0 - 2.0 * 2.5 / norm, 1e-6);
  }
  for (float const value : to_host(table)) {
    EXPECT_NEAR(value, 1.0 - 0.5 * 3.0 * 2.5 / norm, 1e-6);
  }
}

TYPED_TEST(TableRuleTest, gives_the_same_bits_however_the_steps_are_issued) {
  for (auto const kind : ops::kernels::testing::kAllOptimizerKinds) {
    SCOPED_TRACE(ops::name_of(kind));
    auto const trained = [&](int groups, bool captured, bool together) {
      OptimizerOptions options;
      options.table_rule = OptimizerRule{.kind = kind, .learning_rate = 0.03F};
      options.clip_norm = 0.1F;
      options.tables_together = together;
      TrainedModel<TypeParam> model(this->device(), groups, this->kDense, options);
      Floats losses;
      model.train(losses, 4, captured);
      return std::pair(losses, model.parameters());
    };
    auto const expected = trained(1, false, false);
    EXPECT_EQ(trained(4, false, true), expected);
    if constexpr (CapturingRuntime<TypeParam>) {
      EXPECT_EQ(trained(3, true, false), expected);
    }
  }
}

TYPED_TEST(TableRuleTest, the_betas_are_those_of_the_rule_that_corrects_by_them) {
  // Adam moves each weight by the rate in its first step, whatever the betas are.
  auto const table = this->put(Floats{1.0F, 1.0F}, {1, 2});
  OptimizerOptions options;
  options.table_rule = OptimizerRule{
      .kind = OptimizerKind::adam, .learning_rate = 0.5F, .beta1 = 0.5F, .beta2 = 0.75F};
  Optimizer<TypeParam> optimizer(
      this->device(), {.kind = OptimizerKind::sgd, .learning_rate = 1.0F}, options);
  optimizer.add_table("table", table);
  GradientTape tape(this->device());
  auto const bags =
      ops::Bags<TypeParam>(to_device<std::int64_t, TypeParam>(this->device(), {0}, {1, 1}));
  tape.backward(ops::sum(tape, ops::embedding_lookup(tape, table, bags, {})));
  optimizer.step(tape);
  for (float const value : to_host(table)) {
    EXPECT_NEAR(value, 0.5F, 1e-6);
  }
}

TYPED_TEST(TableRuleTest, rules_that_do_not_go_together_are_refused) {
  auto const refused =
      [&](OptimizerRule const& rule, OptimizerRule const& table_rule, char const* words) {
        OptimizerOptions options;
        options.table_rule = table_rule;
        expect_refused([&] { Optimizer<TypeParam>(this->device(), rule, options); }, words);
      };
  auto wrong = this->kTables;
  wrong.epsilon = -1.0F;
  refused(this->kDense, wrong, "table_rule: epsilon of -1");
  auto still = this->kDense;
  still.learning_rate = 0.0F;
  refused(still, this->kTables, "learning_rate of 0");
  OptimizerRule other{.kind = OptimizerKind::partial_rowwise_adam, .learning_rate = 0.1F};
  other.beta2 = 0.99F;
  refused(this->kDense, other, "expected equal betas");
  other.beta2 = this->kDense.beta2;
  OptimizerOptions options;
  options.table_rule = other;
  EXPECT_NO_THROW(Optimizer<TypeParam>(this->device(), this->kDense, options));
}

}  // namespace
}  // namespace msstream::testing
