// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"
#include "ops/optimizer/optimizer_reference.hpp"

#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

template <class R>
class OptimizerTest : public OpsTest<R> {
 protected:
  /// Returns the names and shapes of the optimizer's state, which visit_state() visits.
  static std::map<std::string, std::string> state_of(Optimizer<R> const& optimizer) {
    std::map<std::string, std::string> names;
    optimizer.visit_state([&](std::string const& name, auto const& tensor) {
      EXPECT_TRUE(names.emplace(name, to_string(tensor.shape())).second) << name << " twice";
    });
    return names;
  }
  static std::int64_t steps_of(Optimizer<R> const& optimizer) {
    std::int64_t step = -1;
    optimizer.visit_state([&]<class T>(std::string const& name, Tensor<T, R> const& tensor) {
      if (name == "optimizer/step") {
        std::memcpy(&step, to_host(tensor).data(), sizeof step);
      }
    });
    return step;
  }
};
TYPED_TEST_SUITE(OptimizerTest, Runtimes, RuntimeNames);

TYPED_TEST(OptimizerTest, moves_dense_parameters_and_the_rows_that_were_looked_up) {
  for (auto const kind : kOptimizerKinds) {
    SCOPED_TRACE(fmt::format("kind {}", static_cast<int>(kind)));
    ops::OptimizerRule const rule{.kind = kind, .learning_rate = 0.05F};
    auto const table_start = this->random.reals(5 * 2);
    auto const weight_start = this->random.reals(4);
    auto const table = this->put(table_start, {5, 2});
    auto const weight = this->put(weight_start, {2, 2});
    Optimizer<TypeParam> optimizer(this->device(), rule);
    optimizer.add("weight", weight);
    optimizer.add_table("table", table);
    GradientTape tape(this->device());
    auto expected_table = references_of(table_start);
    auto expected_weight = references_of(weight_start);
    // The steps look up rows 1 and 3 each time, row 3 in both lookups, and row 0 in the first step
    // only.
    std::vector<std::pair<Integers, Integers>> const steps = {
        {{1, 3, 0}, {3, 3}}, {{1, 3, 3}, {3, 1}}, {{3, 1, 1}, {1, 3}}};
    for (int step = 1; step <= 3; ++step) {
      auto const& [first, second] = steps[static_cast<std::size_t>(step - 1)];
      auto const loss = ops::add(
          tape,
          std::vector{
              ops::sum(tape, ops::embedding_lookup(tape, table, {this->put(first)})),
              ops::scale(tape,
                         ops::sum(tape, ops::embedding_lookup(tape, table, {this->put(second)})),
                         0.5F),
              ops::scale(tape, ops::sum(tape, weight), static_cast<float>(step))});
      tape.backward(loss);
      optimizer.step(tape);
      tape.clear();
      for (std::int64_t row = 0; row < 5; ++row) {
        double const gradient = static_cast<double>(std::ranges::count(first, row)) +
                                0.5 * static_cast<double>(std::ranges::count(second, row));
        if (gradient != 0) {
          move(expected_table, rule, Doubles{gradient, gradient}, step, 2 * row);
        }
      }
      move(expected_weight, rule, Doubles(4, step), step, 0);
    }
    expect_near(to_host(table), weights_of(expected_table), 1e-5);
    expect_near(to_host(weight), weights_of(expected_weight), 1e-5);
  }
}

TYPED_TEST(OptimizerTest, a_parameter_without_gradient_is_an_error_before_anything_moves) {
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
  auto const used = this->put(Floats{1, 2});
  auto const unused = this->put(Floats{3, 4, 5});
  auto const table = this->put(Floats{6, 7}, {2, 1});
  optimizer.add("used", used);
  optimizer.add("unused", unused);
  optimizer.add_table("table", table);
  GradientTape tape(this->device());
  auto const rows = ops::embedding_lookup(tape, table, {this->put(Integers{0})});
  tape.backward(ops::add(tape, std::vector{ops::sum(tape, used), ops::sum(tape, rows)}));
  EXPECT_THAT(message_of<std::logic_error>([&] { optimizer.step(tape); }),
              ::testing::AllOf(HasSubstr("\"unused\" of shape [3]"),
                               HasSubstr("the loss does not depend on it"),
                               ::testing::Not(HasSubstr("\"used\""))));
  EXPECT_EQ(this->steps_of(optimizer), 0);
  EXPECT_THAT(to_host(used), ElementsAre(1, 2));
  EXPECT_THAT(to_host(table), ElementsAre(6, 7));
}

TYPED_TEST(OptimizerTest, a_table_that_was_not_looked_up_stays) {
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::adam, .learning_rate = 1.0F});
  auto const table = this->put(Floats{6, 7}, {2, 1});
  optimizer.add_table("table", table);
  GradientTape tape(this->device());
  optimizer.step(tape);
  EXPECT_THAT(to_host(table), ElementsAre(6, 7));
  EXPECT_EQ(this->steps_of(optimizer), 1);
}

TYPED_TEST(OptimizerTest, names_its_state_by_parameter) {
  auto const names_for = [&](ops::OptimizerKind kind) {
    Optimizer<TypeParam> optimizer(this->device(), {.kind = kind, .learning_rate = 1.0F});
    optimizer.add("w", this->any({3}));
    optimizer.add_table("t", this->template any<bfloat16>({4, 2}));
    return this->state_of(optimizer);
  };
  using Names = std::map<std::string, std::string>;
  Names expected = {{"optimizer/step", "[40]"}, {"optimizer/skipped", "[8]"}};
  EXPECT_EQ(names_for(ops::OptimizerKind::sgd), expected);
  expected.merge(Names{{"optimizer/w/state0", "[3]"}, {"optimizer/t/state0", "[4, 2]"}});
  EXPECT_EQ(names_for(ops::OptimizerKind::adagrad), expected);
  expected.merge(Names{{"optimizer/w/state1", "[3]"}, {"optimizer/t/state1", "[4, 2]"}});
  EXPECT_EQ(names_for(ops::OptimizerKind::adam), expected);
  EXPECT_EQ(names_for(ops::OptimizerKind::ftrl), expected);
  expected["optimizer/t/state1"] = "[4]";
  EXPECT_EQ(names_for(ops::OptimizerKind::partial_rowwise_adam), expected);
}

TYPED_TEST(OptimizerTest, moves_tables_in_half_precision) {
  auto const moved = [&]<class T>(T) {
    auto const table = this->put(std::vector<T>(4, from_float<T>(1.0F)), {2, 2});
    Optimizer<TypeParam> optimizer(this->device(),
                                   {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.25F});
    optimizer.add_table("table", table);
    GradientTape tape(this->device());
    tape.backward(ops::sum(tape, ops::embedding_lookup(tape, table, {this->put(Integers{1, 1})})));
    optimizer.step(tape);
    return to_doubles(to_host(table));
  };
  EXPECT_THAT(moved(float16{}), ElementsAre(1, 1, 0.5, 0.5));
  EXPECT_THAT(moved(bfloat16{}), ElementsAre(1, 1, 0.5, 0.5));
}

TYPED_TEST(OptimizerTest, updates_a_table_on_the_group_of_its_lookup) {
  StreamPool pool(this->device(), {.groups = 3});
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
  auto const table = this->any({4, 2});
  optimizer.add_table("table", table);
  GradientTape tape(this->device());
  auto const pooled = [&] {
    StreamScope const branch(pool[2], {.include_grad = true});
    return ops::embedding_lookup(tape, table, {this->put(Integers{1, 3})});
  }();
  tape.backward(ops::sum(tape, pooled));
  this->device().start_spans();
  optimizer.step(tape);
  auto const timeline = this->device().stop_spans();
  auto const update =
      std::ranges::find(timeline.spans(), "table/update_rows", &trace::Timeline::Span::name);
  ASSERT_NE(update, timeline.spans().end());
  EXPECT_EQ(update->lane, "group 2 compute");
}

TYPED_TEST(OptimizerTest, counts_on_the_group_of_tables_that_it_sums_and_moves_at_once) {
  StreamPool pool(this->device(), {.groups = 3});
  for (bool const is_at_once : {true, false}) {
    Optimizer<TypeParam> optimizer(this->device(),
                                   {.kind = ops::OptimizerKind::adam, .learning_rate = 1.0F});
    auto const dense = this->any({2});
    auto const table = this->any({4, 2});
    optimizer.add("dense", dense);
    optimizer.add_table("table", table);
    GradientTape tape(this->device());
    auto const of_dense = ops::sum(tape, dense);
    ops::EmbeddingTables<TypeParam> const tables(this->device(), {{table}});
    auto const pooled = [&] {
      StreamScope const branch(pool[2], {.include_grad = true});
      auto const ids = this->put(Integers{1, 3});
      return is_at_once ? ops::embedding_lookup(tape, tables, {.ids = ids, .batch = 2})
                        : ops::embedding_lookup(tape, table, {ids});
    }();
    tape.backward(ops::add(tape, of_dense, ops::sum(tape, pooled)));
    this->device().start_spans();
    optimizer.step(tape);
    auto const timeline = this->device().stop_spans();
    auto const count =
        std::ranges::find(timeline.spans(), "advance_step", &trace::Timeline::Span::name);
    ASSERT_NE(count, timeline.spans().end());
    EXPECT_EQ(count->lane, is_at_once ? "group 2 compute" : "default group compute");
  }
}

TYPED_TEST(OptimizerTest, moves_the_tables_of_a_group_together_with_the_same_bits) {
  auto const start = this->random.reals(12);
  // The groups on which each of six tables is looked up: table 3 on two groups, table 4 outside the
  // pool's groups, and table 5 never.
  std::vector<std::vector<int>> const groups_of = {{1}, {2}, {1}, {1, 2}, {-1}, {}};
  auto const trained = [&](ops::OptimizerKind kind, bool together, auto&& look) {
    StreamPool pool(this->device(), {.groups = 3});
    Optimizer<TypeParam> optimizer(
        this->device(), {.kind = kind, .learning_rate = 0.1F}, {.tables_together = together});
    std::vector<Tensor<float, TypeParam>> tables;
    for (int i = 0; i < 6; ++i) {
      tables.push_back(this->put(start, {4, 3}));
      optimizer.add_table(fmt::format("table{}", i), tables.back());
    }
    std::vector<bfloat16> halves;
    for (float const value : start) {
      halves.push_back(from_float<bfloat16>(value));
    }
    auto const half = this->put(halves, {6, 2});
    optimizer.add_table("half", half);
    GradientTape tape(this->device());
    for (int step = 0; step < 3; ++step) {
      std::vector<Tensor<float, TypeParam>> losses;
      auto const look_up = [&](int group, auto const& table) {
        std::optional<StreamScope<TypeParam>> scope;
        if (group >= 0) {
          scope.emplace(pool[group], StreamScopeOptions{.include_grad = true});
        }
        auto const rows =
            ops::embedding_lookup(tape, table, {this->put(Integers{1, 3, group + 1})});
        losses.push_back(ops::scale(tape, ops::sum(tape, rows), 0.3F));
      };
      for (std::size_t i = 0; i < tables.size(); ++i) {
        for (int const group : groups_of[i]) {
          look_up(group, tables[i]);
        }
      }
      look_up(2, half);
      tape.backward(ops::add(tape, losses));
      if (step == 2) {
        this->device().start_spans();
      }
      optimizer.step(tape);
      tape.clear();
    }
    look(this->device().stop_spans());
    std::vector<Doubles> all;
    for (auto const& table : tables) {
      all.push_back(to_doubles(to_host(table)));
    }
    all.push_back(to_doubles(to_host(half)));
    optimizer.visit_state([&]<class T>(std::string const&, Tensor<T, TypeParam> const& state) {
      if constexpr (std::is_same_v<T, float>) {
        all.push_back(to_doubles(to_host(state)));
      }
    });
    return all;
  };
  for (auto const kind : kOptimizerKinds) {
    SCOPED_TRACE(fmt::format("kind {}", static_cast<int>(kind)));
    auto const updates_of = [](auto const& timeline) {
      std::vector<std::string> updates;
      for (auto const& span : timeline.spans()) {
        if (span.name.ends_with("update_rows")) {
          updates.push_back(span.lane + ": " + span.name);
        }
      }
      std::ranges::sort(updates);
      return updates;
    };
    auto const alone = trained(
        kind, false, [&](auto const& timeline) { EXPECT_EQ(updates_of(timeline).size(), 6U); });
    EXPECT_EQ(trained(kind,
                      true,
                      [&](auto const& timeline) {
                        EXPECT_THAT(updates_of(timeline),
                                    ElementsAre("default group compute: update_rows",
                                                "group 1 compute: update_rows",
                                                "group 2 compute: update_rows"));
                      }),
              alone);
    EXPECT_EQ(alone[5], to_doubles(start));
    EXPECT_NE(alone[3], to_doubles(start));
  }
}

}  // namespace
}  // namespace msstream::testing
