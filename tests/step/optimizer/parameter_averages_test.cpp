// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameter_averages.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class ParameterAveragesTest : public OpsTest<R> {
 protected:
  /// Averages tables of T over several values, and compares with the definition and bit by bit.
  template <class T>
  void expect_averages_of() {
    constexpr float kDecay = 0.75F;
    ParameterAverages<R> averages(kDecay);
    std::vector<Tensor<T, R>> tables;
    std::vector<Floats> expected;
    auto const put = [&](std::int64_t count) {
      std::vector<T> values;
      for (float const value : this->random.reals(count)) {
        values.push_back(from_float<T>(value));
      }
      return values;
    };
    for (std::int64_t const count : {0, 1, 3, 4, 127, 4097}) {
      for (int k = 0; k < 9; ++k) {  // more tensors than one launch takes
        auto const values = put(count);
        tables.push_back(to_device(this->device(), values, {count, 1}));
        auto& own = expected.emplace_back();
        for (auto const value : values) {
          own.push_back(to_float(value));
        }
        averages.add(fmt::format("t{}", tables.size()), tables.back());
      }
    }
    for (int step = 0; step < 4; ++step) {
      for (std::size_t i = 0; i < tables.size(); ++i) {
        auto const values = put(tables[i].count());
        copy(tables[i], to_device(this->device(), values, tables[i].shape()));
        for (std::size_t k = 0; k < values.size(); ++k) {
          float const volatile kept = kDecay * expected[i][k];
          float const volatile added = (1.0F - kDecay) * to_float(values[k]);
          expected[i][k] = kept + added;
        }
      }
      averages.update();
    }
    auto const bits_of = [&](std::size_t i) {
      std::vector<std::uint16_t> bits;
      for (auto const value : to_host(tables[i])) {
        bits.push_back(value.bits);
      }
      return bits;
    };
    std::vector<std::vector<std::uint16_t>> own;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      own.push_back(bits_of(i));
    }
    for (int again = 0; again < 2; ++again) {
      {
        auto const swapped = averages.swap_in();
        for (std::size_t i = 0; i < tables.size(); ++i) {
          auto const shown = to_host(tables[i]);
          for (std::size_t k = 0; k < shown.size(); ++k) {
            ASSERT_EQ(to_float(shown[k]), to_float(from_float<T>(expected[i][k])));
          }
        }
      }
      for (std::size_t i = 0; i < tables.size(); ++i) {
        ASSERT_EQ(bits_of(i), own[i]);
      }
      std::size_t i = 0;
      averages.visit_state([&](std::string const&, Tensor<float, R> const& average) {
        EXPECT_EQ(to_host(average), expected[i++]);
      });
    }
  }
};
TYPED_TEST_SUITE(ParameterAveragesTest, Runtimes, RuntimeNames);

TYPED_TEST(ParameterAveragesTest, follow_their_definition_and_swap_in_for_evaluation) {
  constexpr float kDecay = 0.75F;
  ParameterAverages<TypeParam> averages(kDecay);
  std::vector<Tensor<float, TypeParam>> weights;
  std::vector<Doubles> expected;
  for (std::int64_t const count : {0, 1, 31, 32, 33, 127, 4097}) {
    for (int k = 0; k < 8; ++k) {  // more tensors than one launch takes
      auto const values = this->random.reals(count);
      weights.push_back(this->put(values, {count}));
      expected.push_back(to_doubles(values));
      averages.add(fmt::format("w{}", weights.size()), weights.back());
    }
  }
  for (int step = 0; step < 4; ++step) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      auto const values = this->random.reals(weights[i].count());
      copy(weights[i], this->put(values, weights[i].shape()));
      for (std::size_t k = 0; k < values.size(); ++k) {
        expected[i][k] = kDecay * expected[i][k] + (1.0 - kDecay) * values[k];
      }
    }
    averages.update();
  }
  std::vector<Floats> own;
  for (auto const& weight : weights) {
    own.push_back(to_host(weight));
  }
  {
    auto const swapped = averages.swap_in();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      expect_near(to_host(weights[i]), expected[i], 1e-6);
    }
    EXPECT_THROW(averages.update(), std::logic_error);
    EXPECT_THROW((void)averages.swap_in(), std::logic_error);
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(to_host(weights[i]), own[i]);
  }
  std::map<std::string, Floats> visited;
  averages.visit_state([&](std::string const& name, Tensor<float, TypeParam> const& average) {
    visited[name] = to_host(average);
  });
  EXPECT_EQ(visited.size(), weights.size());
  expect_near(visited.at("average/w56"), expected[55], 1e-6);
}

TYPED_TEST(ParameterAveragesTest, begin_anew_with_weights_that_were_loaded) {
  auto const w = this->put(Floats{1.0F, std::nanf("")}, {2});
  auto const halves = to_device(
      this->device(), std::vector{from_float<float16>(1.0F), from_float<float16>(2.0F)}, {2, 1});
  ParameterAverages<TypeParam> averages(0.5F);
  averages.add("w", w);
  averages.add("halves", halves);
  copy(w, this->put(Floats{3.0F, 5.0F}, {2}));
  copy(halves,
       to_device(this->device(),
                 std::vector{from_float<float16>(3.0F), from_float<float16>(5.0F)},
                 {2, 1}));
  averages.restart();
  averages.update();
  auto swapped = averages.swap_in();
  EXPECT_THROW(averages.restart(), std::logic_error);
  EXPECT_EQ(to_host(w), (Floats{3.0F, 5.0F}));
  EXPECT_EQ(to_float(to_host(halves)[1]), 5.0F);
}

TYPED_TEST(ParameterAveragesTest, go_on_in_replays) {
  if constexpr (CapturingRuntime<TypeParam>) {
    auto const w = this->put(Floats{0.0F}, {1});
    ParameterAverages<TypeParam> averages(0.5F);
    averages.add("w", w);
    auto const one = this->put(Floats{1.0F}, {1});
    auto const step = [&] {
      copy(w, one);
      averages.update();
    };
    step();
    CapturedStep<TypeParam> captured(this->device(), step);
    captured.replay();
    captured.replay();
    auto swapped = averages.swap_in();
    EXPECT_EQ(to_host(w).front(), 0.875F);
    swapped.restore();
    EXPECT_EQ(to_host(w).front(), 1.0F);
  }
}

TYPED_TEST(ParameterAveragesTest, refuse_what_they_cannot_average) {
  expect_refused([] { ParameterAverages<TypeParam>(1.0F); }, "decay of 1", "[0, 1)");
  ParameterAverages<TypeParam> averages(0.5F);
  auto w = this->put(Floats{1.0F}, {1});
  averages.add("w", w);
  expect_refused([&] { averages.add("w", w); }, "\"w\"");
  expect_refused([&] { averages.add("again", w); }, "\"again\"", "\"w\" of shape [1]", "twice");
  auto const table = this->put(Floats(6, 1.0F), {3, 2});
  averages.add("rows", table.rows(1, 3));
  expect_refused([&] { averages.add("table", table); }, "\"table\"", "\"rows\" of shape [2, 2]");
  averages.add("first", table.rows(0, 1));
  Parameters parameters(this->device());
  (void)parameters.dense("new", {1, 1});
  (void)parameters.dense("w", {1, 1});
  expect_refused([&] { averages.add(parameters); }, "\"w\"");
  int count = 0;
  averages.visit_state([&](auto const&...) { ++count; });
  EXPECT_EQ(count, 3) << "nothing of a store that is refused is added";
  w.freeze();
  expect_refused([&] { averages.add("frozen", w); }, "\"frozen\" of shape [1]");
}

TYPED_TEST(ParameterAveragesTest, swapped_weights_are_neither_moved_nor_averaged) {
  auto const w = this->put(Floats{1.0F}, {1});
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
  optimizer.add("w", w);
  ParameterAverages<TypeParam> averages(0.5F);
  ParameterAverages<TypeParam> others(0.9F);
  averages.add("w", w);
  others.add("w", w);
  GradientTape tape(this->device());
  tape.backward(ops::sum(tape, w));
  auto const refused = [](auto&& call, char const* name) {
    EXPECT_THAT(message_of<std::logic_error>(call),
                ::testing::AllOf(::testing::HasSubstr(name),
                                 ::testing::HasSubstr("\"w\" of shape [1]"),
                                 ::testing::HasSubstr("swap_in()")));
  };
  {
    auto const swapped = averages.swap_in();
    refused([&] { optimizer.step(tape); }, "Optimizer::step");
    refused([&] { others.update(); }, "ParameterAverages::update");
    refused([&] { (void)others.swap_in(); }, "ParameterAverages::swap_in");
    ParameterAverages<TypeParam> late(0.5F);
    refused([&] { late.add("w", w); }, "ParameterAverages::add");
  }
  EXPECT_EQ(to_host(w).front(), 1.0F);
  EXPECT_TRUE(optimizer.step(tape));
  EXPECT_NO_THROW(others.update());
  EXPECT_EQ(to_host(w).front(), 0.0F);
  tape.clear();
}

TYPED_TEST(ParameterAveragesTest, take_a_store_whole_or_by_pattern) {
  Parameters parameters(this->device());
  (void)parameters.dense("top/w", {2, 1});
  (void)parameters.dense("frozen", {2, 1});
  (void)parameters.table("users", {3, 2});
  (void)parameters.template table<float16>("items", {3, 2});
  (void)parameters.buffer("running", {2});
  parameters.freeze("frozen");
  ParameterAverages<TypeParam> averages(0.5F);
  auto const names = [&] {
    std::vector<std::string> found;
    averages.visit_state([&](std::string const& name, auto const&) { found.push_back(name); });
    return found;
  };
  averages.add(parameters);
  EXPECT_THAT(names(), ::testing::ElementsAre("average/top/w"));
  averages.add(parameters, "users");
  averages.add(parameters);  // nothing is added twice
  EXPECT_THAT(names(), ::testing::ElementsAre("average/top/w", "average/users"));
  expect_refused([&] { averages.add(parameters, "running"); }, "\"running\"", "no parameter");
  EXPECT_EQ(names().size(), 2U);
  averages.add(parameters, "*");
  EXPECT_THAT(names(), ::testing::ElementsAre("average/top/w", "average/users", "average/items"));
}

TYPED_TEST(ParameterAveragesTest, of_tables_of_16_bits_are_of_float32_and_swap_exactly) {
  this->template expect_averages_of<float16>();
  this->template expect_averages_of<bfloat16>();
}

TYPED_TEST(ParameterAveragesTest, of_what_is_frozen_are_not_swapped_in) {
  Parameters parameters(this->device());
  (void)parameters.template table<bfloat16>("items", {3, 2});
  (void)parameters.table("users", {3, 2});
  ParameterAverages<TypeParam> averages(0.5F);
  averages.add(parameters, "*");
  parameters.freeze("users");
  averages.update();
  EXPECT_THAT(message_of<std::logic_error>([&] { (void)averages.swap_in(); }),
              ::testing::HasSubstr("\"users\" of shape [3, 2] is frozen"));
  parameters.unfreeze("users");
  EXPECT_NO_THROW((void)averages.swap_in());
}

}  // namespace
}  // namespace msstream::testing
