// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"
#include "ops/optimizer/optimizer_reference.hpp"

#include <msstream/base/format.hpp>
#include <msstream/ops/optimizer.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <variant>

namespace msstream::testing {
namespace {

using ops::OptimizerKind;

template <class R>
class OptimizerOpsTest : public OpsTest<R> {
 protected:
  /// Returns the tolerance for weights of type T after `steps` updates. Rounding to T loses up to
  /// half a unit in the last place at each update.
  template <class T>
  static constexpr double tolerance_of(int steps) {
    return std::is_same_v<T, float>     ? 1e-5
           : std::is_same_v<T, float16> ? steps * 0x1p-11
                                        : steps * 0x1p-8;
  }

  template <class T>
  void expect_rows_move(OptimizerKind kind) {
    SCOPED_TRACE(fmt::format("kind {}, {}", static_cast<int>(kind), dtype_of<T>));
    constexpr std::int64_t kRows = 30;
    constexpr std::int64_t kWidth = 5;
    constexpr int kSteps = 4;
    ops::OptimizerRule const rule{.kind = kind, .learning_rate = 0.01F};
    std::vector<T> start;
    for (float const value : this->random.reals(kRows * kWidth)) {
      start.push_back(from_float<T>(value));
    }
    ReferenceWeights expected;
    for (double const value : to_doubles(start)) {
      expected.push_back({value});
    }
    auto const table = this->put(start, {kRows, kWidth});
    auto const state = ops::make_state(this->device(), kind, table.shape());
    ops::StepCounter step(this->device());
    for (int t = 1; t <= kSteps; ++t) {
      // Rows 0 to 9 of the table never change. Rows whose ids are beyond the count must not change
      // either.
      Integers ids;
      for (std::int64_t row = 10; row < kRows; ++row) {
        if (this->random.integer(0, 1) != 0) {
          ids.push_back(row);
        }
      }
      auto const count = static_cast<std::int64_t>(ids.size());
      auto values = this->random.reals(count * kWidth, 0.5F, 1.0F);
      for (std::int64_t u = 0; u < count; ++u) {
        Doubles const gradient(values.begin() + u * kWidth, values.begin() + (u + 1) * kWidth);
        move(expected, rule, gradient, t, ids[static_cast<std::size_t>(u)] * kWidth);
      }
      ids.insert(ids.end(), {0, 1, 2});
      values.resize(values.size() + 3 * kWidth, std::nanf(""));
      step.advance(rule);
      ops::update_rows(
          rule,
          step,
          table,
          ops::RowGradients<R>{
              this->put(ids), this->scalar(count), this->put(values, {count + 3, kWidth})},
          state);
    }
    Floats moved;
    for (auto const element : to_host(table)) {
      moved.push_back(to_float(element));
    }
    expect_near(moved, weights_of(expected), tolerance_of<T>(kSteps));
    for (std::size_t i = 0; i < 10 * static_cast<std::size_t>(kWidth); ++i) {
      ASSERT_EQ(moved[i], to_float(start[i])) << "a row without gradient moved";
    }
  }
};
TYPED_TEST_SUITE(OptimizerOpsTest, Runtimes, RuntimeNames);

TYPED_TEST(OptimizerOpsTest, dense_parameters_follow_the_rule_in_double) {
  for (auto const kind : kOptimizerKinds) {
    SCOPED_TRACE(fmt::format("kind {}", static_cast<int>(kind)));
    ops::OptimizerRule rule{.kind = kind, .learning_rate = 0.01F};
    if (kind == OptimizerKind::momentum || ops::states_of(kind) == 2) {
      rule.beta1 = kind == OptimizerKind::ftrl ? rule.beta1 : 0.8F;
    }
    std::vector<ops::DenseParameter<TypeParam>> parameters;
    std::vector<ReferenceWeights> expected;
    for (std::int64_t i = 0; i < 60; ++i) {  // more parameters than one launch takes
      Shape const shape{i % 7, 1 + i % 5};
      auto const start = this->random.reals(shape.count());
      expected.push_back(references_of(start));
      parameters.push_back({this->put(start, shape),
                            this->any(shape),
                            ops::make_state(this->device(), kind, shape)});
    }
    ops::StepCounter step(this->device());
    for (int t = 1; t <= 4; ++t) {
      step.advance(rule);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        auto const& weight = parameters[i].weight;
        auto const gradient = this->random.reals(weight.count(), 0.5F, 1.0F);
        parameters[i].gradient = this->put(gradient, weight.shape());
        move(expected[i], rule, to_doubles(gradient), t, 0);
      }
      ops::update_dense(rule, step, parameters);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      expect_near(to_host(parameters[i].weight), weights_of(expected[i]), 1e-5);
    }
  }
}

TYPED_TEST(OptimizerOpsTest, rows_follow_the_rule_in_each_precision) {
  for (auto const kind : kOptimizerKinds) {
    this->template expect_rows_move<float>(kind);
    this->template expect_rows_move<float16>(kind);
    this->template expect_rows_move<bfloat16>(kind);
  }
}

TYPED_TEST(OptimizerOpsTest, the_state_of_a_rule_is_zeros_of_the_shape) {
  for (auto const kind : kOptimizerKinds) {
    auto const state = ops::make_state(this->device(), kind, {3, 2});
    EXPECT_EQ((state.first ? 1 : 0) + (state.second ? 1 : 0), ops::states_of(kind));
    for (auto const& tensor : {state.first, state.second}) {
      if (tensor) {
        EXPECT_EQ(tensor->shape(), (Shape{3, 2}));
        EXPECT_THAT(to_host(*tensor), ::testing::Each(0.0F));
      }
    }
  }
}

TYPED_TEST(OptimizerOpsTest, the_state_of_a_row_is_one_number_and_moves_the_row) {
  auto const kind = OptimizerKind::rowwise_adagrad;
  auto const state = ops::make_state(this->device(), kind, {2, 4});
  EXPECT_EQ(state.first->shape(), (Shape{2}));
  EXPECT_FALSE(state.second);
  EXPECT_EQ(ops::make_state(this->device(), ops::dense_kind(kind), {2, 4}).first->shape(),
            (Shape{2, 4}));
  auto const table = this->put(Floats(8, 1.0F), {2, 4});
  ops::StepCounter step(this->device());
  ops::OptimizerRule const rule{.kind = kind, .learning_rate = 0.5F, .epsilon = 0.0F};
  // The mean of the squared gradients of the row is 4, so the row moves by half of its gradient.
  ops::RowGradients<TypeParam> const gradients{
      this->put(Integers{1}), this->scalar(1), this->put(Floats{2, -2, 2, 2}, {1, 4})};
  ops::update_rows(rule, step, table, gradients, state);
  EXPECT_EQ(to_host(table), (Floats{1, 1, 1, 1, 0.5F, 1.5F, 0.5F, 0.5F}));
  EXPECT_EQ(to_host(*state.first), (Floats{0, 4}));
  expect_refused(
      [&] {
        ops::update_rows(rule,
                         step,
                         table,
                         gradients,
                         ops::make_state(this->device(), OptimizerKind::adagrad, {2, 4}));
      },
      "update_rows",
      "state [2, 4]");
}

TYPED_TEST(OptimizerOpsTest, a_dense_parameter_has_no_rows_and_moves_by_adagrad) {
  auto const weights = this->random.reals(6);
  auto const gradient = this->random_tensor({2, 3});
  ops::StepCounter step(this->device());
  auto const moved = [&](OptimizerKind kind) {
    auto const weight = this->put(weights, {2, 3});
    ops::update_dense(
        {.kind = kind, .learning_rate = 0.1F},
        step,
        std::vector<ops::DenseParameter<TypeParam>>{
            {weight, gradient, ops::make_state(this->device(), ops::dense_kind(kind), {2, 3})}});
    return to_host(weight);
  };
  EXPECT_EQ(moved(OptimizerKind::rowwise_adagrad), moved(OptimizerKind::adagrad));
}

TYPED_TEST(OptimizerOpsTest, tables_of_any_types_move_in_one_operation_with_the_same_bits) {
  for (auto const kind : kOptimizerKinds) {
    ops::OptimizerRule const rule{.kind = kind, .learning_rate = 0.01F};
    ops::StepCounter step(this->device());
    step.advance(rule);
    std::vector<ops::TableParameter<TypeParam>> together;
    std::vector<ops::TableParameter<TypeParam>> alone;
    auto const add = [&]<class T>(T, std::int64_t width) {
      std::vector<T> start;
      for (float const value : this->random.reals(7 * width)) {
        start.push_back(from_float<T>(value));
      }
      ops::RowGradients<TypeParam> const gradients{
          this->put(Integers{1, 4, 6}), this->scalar(2), this->random_tensor({3, width})};
      for (auto* const tables : {&together, &alone}) {
        tables->push_back({this->put(start, {7, width}),
                           gradients,
                           ops::make_state(this->device(), kind, Shape{7, width})});
      }
    };
    add(float{}, 4);
    add(bfloat16{}, 5);
    add(float{}, 1);
    add(float16{}, 8);
    auto const before = this->device().operation_count();
    ops::update_rows(rule, step, together);
    EXPECT_EQ(this->device().operation_count(), before + 1);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      SCOPED_TRACE(fmt::format("kind {}, table {}", static_cast<int>(kind), i));
      std::visit(
          [&]<class T>(Tensor<T, TypeParam> const& table) {
            auto const start = to_doubles(to_host(table));
            ops::update_rows(rule, step, table, alone[i].gradients, alone[i].state);
            auto const& moved = std::get<Tensor<T, TypeParam>>(together[i].table);
            EXPECT_EQ(to_doubles(to_host(moved)), to_doubles(to_host(table)));
            EXPECT_NE(to_doubles(to_host(moved)), start);
          },
          alone[i].table);
      if (alone[i].state.first) {
        EXPECT_EQ(to_host(*together[i].state.first), to_host(*alone[i].state.first));
      }
      if (alone[i].state.second) {
        EXPECT_EQ(to_host(*together[i].state.second), to_host(*alone[i].state.second));
      }
    }
  }
}

TYPED_TEST(OptimizerOpsTest, one_bad_table_among_others_is_refused_before_anything_moves) {
  ops::StepCounter const step(this->device());
  auto const table = this->put(Floats{1, 2}, {2, 1});
  ops::RowGradients<TypeParam> const gradients{
      this->put(Integers{0}), this->scalar(1), this->put(Floats{1}, {1, 1})};
  std::vector<ops::TableParameter<TypeParam>> const tables{{table, gradients, {}},
                                                           {this->any({2, 3}), gradients, {}}};
  expect_refused(
      [&] { ops::update_rows({.kind = OptimizerKind::sgd, .learning_rate = 1.0F}, step, tables); },
      "update_rows",
      "table [2, 3]",
      "[1, 1]");
  EXPECT_EQ(to_host(table), (Floats{1, 2}));
}

/// True if a rule can be made without a kind of optimizer.
template <class Rule>
concept HasDefaultKind = requires {
  Rule{.learning_rate = 0.1F};
};
template <class Rule>
concept HasDefaultRate = requires {
  Rule{.kind = OptimizerKind::adam};
};
template <class Rule>
concept HasBoth = requires {
  Rule{.kind = OptimizerKind::adam, .learning_rate = 0.1F};
};
static_assert(!HasDefaultKind<ops::OptimizerRule> && !HasDefaultRate<ops::OptimizerRule> &&
              !std::is_default_constructible_v<ops::OptimizerRule> && HasBoth<ops::OptimizerRule>);

TYPED_TEST(OptimizerOpsTest, refuses_rules_with_numbers_out_of_range) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto const nan = std::nanf("");
  ops::StepCounter step(this->device());
  auto const weight = this->put(Floats{1, 2}, {2, 1});
  auto const state = ops::make_state(this->device(), OptimizerKind::sgd, weight.shape());
  ops::RowGradients<TypeParam> const rows{
      this->put(Integers{0}), this->scalar(1), this->put(Floats{1}, {1, 1})};
  ops::Bags<TypeParam> const bags(this->put(Integers{0}));
  auto const unique = ops::deduplicate(bags, 2);
  auto const refused_by_all =
      [&](ops::OptimizerRule const& rule, char const* member, char const* range) {
        auto const refused = [&](char const* operation, auto&& call) {
          expect_refused(call, operation, member, range);
        };
        refused("advance_step", [&] { step.advance(rule); });
        refused("update_dense", [&] {
          ops::update_dense(
              rule, step, std::vector<ops::DenseParameter<TypeParam>>{{weight, weight, state}});
        });
        refused("update_rows", [&] { ops::update_rows(rule, step, weight, rows, state); });
        refused("update_rows", [&] {
          ops::update_rows(
              rule, step, std::vector<ops::TableParameter<TypeParam>>{{weight, rows, state}});
        });
        refused("update_embedding", [&] {
          ops::update_embedding(
              rule, step, weight, state, bags, unique, ops::Pooling::sum, this->any({1, 1}));
        });
      };
  auto const kSgd = OptimizerKind::sgd;
  for (float const bad : {nan, -1e-9F, kInfinity, -kInfinity}) {
    refused_by_all({.kind = kSgd, .learning_rate = bad}, "learning_rate", "[0, infinity)");
    refused_by_all(
        {.kind = kSgd, .learning_rate = 1.0F, .epsilon = bad}, "epsilon", "[0, infinity)");
  }
  for (float const bad : {nan, -0.1F, 1.0F, 2.0F, kInfinity}) {
    refused_by_all({.kind = kSgd, .learning_rate = 1.0F, .beta1 = bad}, "beta1", "[0, 1)");
    refused_by_all({.kind = kSgd, .learning_rate = 1.0F, .beta2 = bad}, "beta2", "[0, 1)");
  }
  refused_by_all(
      {.kind = static_cast<OptimizerKind>(11), .learning_rate = 1.0F}, "kind", "the number 11");
  EXPECT_EQ(to_host(weight), (Floats{1, 2}));
  ops::require_rule("none", {.kind = kSgd, .learning_rate = 0.0F});
  ops::require_rule(
      "none",
      {.kind = ops::OptimizerKind::adam, .learning_rate = 0.0F, .beta1 = 0.0F, .epsilon = 0.0F});
}

TYPED_TEST(OptimizerOpsTest, no_parameters_are_no_operation) {
  ops::StepCounter const step(this->device());
  auto const before = this->device().operation_count();
  ops::OptimizerRule const rule{.kind = OptimizerKind::adam, .learning_rate = 1.0F};
  ops::update_dense<TypeParam>(rule, step, {});
  ops::update_rows(rule, step, std::vector<ops::TableParameter<TypeParam>>{});
  EXPECT_EQ(this->device().operation_count(), before);
}

TYPED_TEST(OptimizerOpsTest, refuses_shapes_types_and_state_that_do_not_fit) {
  ops::StepCounter const step(this->device());
  auto const state_of = [&](OptimizerKind kind, Shape const& shape) {
    return ops::make_state(this->device(), kind, shape);
  };
  auto const dense = [&](OptimizerKind kind, Shape const& gradient, auto const& state) {
    return [=, this, &step] {
      ops::update_dense(ops::OptimizerRule{.kind = kind, .learning_rate = 1.0F},
                        step,
                        std::vector<ops::DenseParameter<TypeParam>>{
                            {this->any({2, 3}), this->any(gradient), state}});
    };
  };
  expect_refused(dense(OptimizerKind::sgd, {6}, state_of(OptimizerKind::sgd, {})),
                 "update_dense",
                 "[2, 3]",
                 "[6]");
  expect_refused(dense(OptimizerKind::adam, {2, 3}, state_of(OptimizerKind::adagrad, {2, 3})),
                 "update_dense",
                 "state");
  expect_refused(dense(OptimizerKind::adagrad, {2, 3}, state_of(OptimizerKind::adagrad, {3, 2})),
                 "update_dense",
                 "state",
                 "[2, 3]",
                 "[3, 2]");

  auto const ids = [&](Shape const& shape) { return this->template any<std::int64_t>(shape); };
  auto const rows = [&](auto const& table,
                        Shape const& id_shape,
                        Shape const& values,
                        OptimizerKind kind,
                        auto const& state) {
    return [=, this, &step] {
      ops::update_rows(ops::OptimizerRule{.kind = kind, .learning_rate = 1.0F},
                       step,
                       table,
                       ops::RowGradients<TypeParam>{ids(id_shape), ids({}), this->any(values)},
                       state);
    };
  };
  auto const table = this->any({4, 3});
  auto const none = state_of(OptimizerKind::sgd, {});
  auto const kSgd = OptimizerKind::sgd;
  expect_refused(rows(this->any({12}), {2}, {2, 3}, kSgd, none), "update_rows", "[12]", "[2, 3]");
  expect_refused(rows(table, {2}, {2, 4}, kSgd, none), "update_rows", "[4, 3]", "[2, 4]");
  expect_refused(rows(table, {2}, {6}, kSgd, none), "update_rows", "[4, 3]", "[6]");
  expect_refused(rows(table, {1}, {2, 3}, kSgd, none), "update_rows", "[1]", "[2, 3]");
  expect_refused(rows(ids({4, 3}), {2}, {2, 3}, kSgd, none), "update_rows", "int64");
  expect_refused(rows(table, {2}, {2, 3}, OptimizerKind::adam, none), "update_rows", "state");
  expect_refused(
      rows(table, {2}, {2, 3}, OptimizerKind::adagrad, state_of(OptimizerKind::adagrad, {3, 4})),
      "update_rows",
      "state",
      "[4, 3]",
      "[3, 4]");
}

}  // namespace
}  // namespace msstream::testing
