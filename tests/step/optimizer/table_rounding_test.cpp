// SPDX-License-Identifier: Apache-2.0
// Tests OptimizerOptions::table_rounding: what is rounded stochastically, and what the random bits
// depend on.
#include "ops/ops_fixture.hpp"

#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ops::OptimizerKind;
using Rounding = OptimizerOptions::Rounding;

template <class R>
class TableRoundingTest : public OpsTest<R> {
 protected:
  static constexpr std::int64_t kRows = 4;
  static constexpr std::int64_t kWidth = 1000;
  static constexpr float kStart = 1.5F;

  /// Returns the weights of tables of T, all of which begin at kStart, after so many steps of SGD
  /// that lower each by `rate`. The optimizer gets the tables in the order of the names.
  template <class T>
  std::vector<Doubles> trained(OptimizerOptions const& options,
                               std::vector<std::string> const& names,
                               float rate,
                               int steps = 1) {
    Optimizer<R> optimizer(
        this->device(), {.kind = OptimizerKind::sgd, .learning_rate = rate}, options);
    std::vector<Tensor<T, R>> tables;
    for (auto const& name : names) {
      tables.push_back(
          this->put(std::vector<T>(kRows * kWidth, from_float<T>(kStart)), {kRows, kWidth}));
      optimizer.add_table(name, tables.back());
    }
    GradientTape<R> tape(this->device());
    auto const ids = this->put(Integers{0, 1, 2, 3}, {kRows, 1});
    for (int step = 0; step < steps; ++step) {
      tape.clear();
      std::vector<Tensor<float, R>> pooled;
      for (auto const& table : tables) {
        pooled.push_back(ops::embedding_lookup(tape, table, ops::Bags<R>(ids), {}));
      }
      tape.backward(ops::sum(tape, ops::concat(tape, pooled)));
      optimizer.step(tape);
    }
    std::vector<Doubles> weights;
    for (auto const& table : tables) {
      weights.push_back(to_doubles(to_host(table)));
    }
    return weights;
  }
  template <class T>
  Doubles trained_one(OptimizerOptions const& options, float rate, int steps = 1) {
    return trained<T>(options, {"table"}, rate, steps).front();
  }
  /// Expects that steps of a quarter of the distance of neighbours change nothing if they are
  /// rounded to nearest, and otherwise lower the mean by what they are.
  template <class T>
  void expect_small_steps(float distance) {
    constexpr int kSteps = 8;
    constexpr double kCount = kRows * kWidth;
    float const rate = distance / 4.0F;
    EXPECT_EQ(trained_one<T>({}, rate, kSteps), Doubles(kRows * kWidth, double{kStart}));
    auto const found = trained_one<T>(stochastic(3), rate, kSteps);
    double sum = 0.0;
    for (auto const weight : found) {
      auto const moved = (kStart - weight) / distance;
      ASSERT_EQ(moved, std::floor(moved)) << "a weight that the type does not have";
      ASSERT_TRUE(moved >= 0.0 && moved <= kSteps) << moved;
      sum += moved;
    }
    // A weight moves in a step with probability 1/4: a deviation of sqrt(8 * 1/4 * 3/4).
    EXPECT_NEAR(sum / kCount, kSteps / 4.0, 6.0 * std::sqrt(1.5 / kCount));
  }
  [[nodiscard]] static OptimizerOptions stochastic(std::uint64_t seed) {
    return {.table_rounding = Rounding::stochastic, .rounding_seed = seed};
  }
};
TYPED_TEST_SUITE(TableRoundingTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(TableRoundingTest, small_updates_move_half_tables_by_their_mean) {
  this->template expect_small_steps<float16>(0x1p-10F);
  this->template expect_small_steps<bfloat16>(0x1p-7F);
}

TYPED_TEST(TableRoundingTest, bits_depend_on_seed_name_step_row_and_column) {
  float const rate = 0x1p-8F;  // half of the distance
  auto const of = [&](std::uint64_t seed, std::string const& name) {
    return this->template trained<bfloat16>(this->stochastic(seed), {name}, rate).front();
  };
  auto const expected = of(1, "users");
  EXPECT_EQ(of(1, "users"), expected);
  EXPECT_NE(of(2, "users"), expected);
  EXPECT_NE(of(1, "items"), expected);
  auto const row = [&](std::int64_t number) {
    return Doubles(expected.begin() + number * this->kWidth,
                   expected.begin() + (number + 1) * this->kWidth);
  };
  EXPECT_NE(row(0), row(1));
  EXPECT_NE(row(0), Doubles(this->kWidth, row(0).front()));
  // If the second step had the bits of the first one, each weight would have moved in both or none.
  auto const twice = this->template trained_one<bfloat16>(this->stochastic(1), rate, 2);
  EXPECT_THAT(twice, ::testing::Contains(1.5 - 0x1p-7));
}

TYPED_TEST(TableRoundingTest, bits_do_not_depend_on_other_tables_or_on_launches) {
  float const rate = 0x1p-9F;
  auto const expected =
      this->template trained<bfloat16>(this->stochastic(1), {"users", "items"}, rate, 3);
  auto const other_way =
      this->template trained<bfloat16>(this->stochastic(1), {"items", "users"}, rate, 3);
  EXPECT_EQ(other_way[1], expected[0]);
  EXPECT_EQ(other_way[0], expected[1]);
  auto together = this->stochastic(1);
  together.tables_together = true;
  EXPECT_EQ(this->template trained<bfloat16>(together, {"users", "items"}, rate, 3), expected);
  EXPECT_EQ(this->template trained<bfloat16>(this->stochastic(1), {"items"}, rate, 3).front(),
            expected[1]);
}

TYPED_TEST(TableRoundingTest, parts_of_rows_have_the_bits_of_the_whole_table) {
  float const rate = 0x1p-9F;
  auto const whole = this->template trained_one<bfloat16>(this->stochastic(1), rate);
  auto const part_of = [&](std::int64_t first_row, std::int64_t first_column) {
    auto const part = this->put(std::vector<bfloat16>(2 * this->kWidth, from_float<bfloat16>(1.5F)),
                                {2, this->kWidth});
    Optimizer<TypeParam> optimizer(
        this->device(), {.kind = OptimizerKind::sgd, .learning_rate = rate}, this->stochastic(1));
    optimizer.add_part(
        "table", part.any(), first_row, first_column, {}, std::source_location::current());
    GradientTape<TypeParam> tape(this->device());
    auto const ids = this->put(Integers{0, 1}, {2, 1});
    tape.backward(ops::sum(tape, ops::embedding_lookup(tape, part, ops::Bags<TypeParam>(ids), {})));
    optimizer.step(tape);
    return to_doubles(to_host(part));
  };
  EXPECT_EQ(part_of(0, 0), Doubles(whole.begin(), whole.begin() + 2 * this->kWidth));
  EXPECT_EQ(part_of(2, 0), Doubles(whole.begin() + 2 * this->kWidth, whole.end()));
  EXPECT_NE(part_of(0, 1), part_of(0, 0));
}

TYPED_TEST(TableRoundingTest, tables_of_float32_are_not_rounded) {
  EXPECT_EQ(this->template trained_one<float>(this->stochastic(1), 0x1p-12F, 3),
            this->template trained_one<float>({}, 0x1p-12F, 3));
}

TYPED_TEST(TableRoundingTest, a_rounding_that_does_not_exist_is_refused) {
  expect_refused(
      [&] {
        Optimizer<TypeParam>(this->device(),
                             {.kind = OptimizerKind::sgd, .learning_rate = 1.0F},
                             {.table_rounding = static_cast<Rounding>(7)});
      },
      "no rounding of tables has the number 7");
}

}  // namespace
}  // namespace msstream::testing
