// SPDX-License-Identifier: Apache-2.0
// Compares each rule with the formulas of its paper in double, and schedules with their
// definitions.
#include "kernels/kernel_fixture.hpp"
#include "kernels/optimizer/optimizer_reference.hpp"
#include "optimizer/schedule_math.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

constexpr float kNoClip = std::numeric_limits<float>::infinity();

/// Weights from 1 to 2 and small steps keep the weights away from 0, so that a relative error means
/// something.
[[nodiscard]] OptimizerRule tested_rule(OptimizerKind kind, float weight_decay, float clip_value) {
  OptimizerRule rule{.kind = kind, .learning_rate = 0.002F};
  if (kind == OptimizerKind::momentum) {
    rule.learning_rate = 0.0004F;  // its steps grow tenfold
  }
  rule.weight_decay = weight_decay;
  rule.clip_value = clip_value;
  if (kind == OptimizerKind::ftrl) {
    rule.l1 = 0.001F;
    rule.ftrl_beta = 0.5F;
  }
  if (kind == OptimizerKind::rmsprop || kind == OptimizerKind::lion) {
    rule.beta2 = 0.99F;
  }
  return rule;
}
[[nodiscard]] GroupNumbers numbers_of(OptimizerRule const& rule) {
  return {.rate = 1.0F, .weight_decay = rule.weight_decay, .clip_value = rule.clip_value};
}

template <class Stream>
class OptimizerRulesTest : public KernelTest<Stream> {
 protected:
  /// Returns gradients that are not near 0, so that the sign of a mean is not a matter of rounding.
  [[nodiscard]] std::vector<float> gradients(std::int64_t count) {
    auto values = this->random.reals(count, 0.1F, 1.0F);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= i % 3 == 0 ? -1.0F : 1.0F;
    }
    return values;
  }
  static void expect_within(std::vector<float> const& actual,
                            ReferenceRow const& expected,
                            std::size_t first,
                            double relative,
                            char const* what) {
    for (std::size_t i = 0; i < expected.weights.size(); ++i) {
      double const weight = expected.weights[i];
      if (!expected.unclear[i]) {
        ASSERT_NEAR(actual[first + i], weight, relative * std::abs(weight) + 1e-30)
            << what << " " << first + i;
      }
    }
  }

  void expect_dense(OptimizerRule const& rule) {
    std::vector<std::int64_t> const counts = {1, 31, 32, 33, 0, 127, 1024, 1025, 4097};
    auto const total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    auto const start = this->random.reals(total, 1.0F, 2.0F);
    auto const weights = this->upload(start);
    auto const state0 = this->upload(std::vector<float>(start.size(), 0.0F));
    auto const state1 = this->upload(std::vector<float>(start.size(), 0.0F));
    auto const step = this->upload(std::vector{StepState{}});
    std::vector<ReferenceRow> expected;
    std::int64_t first = 0;
    for (auto const count : counts) {
      expected.push_back({{start.begin() + first, start.begin() + first + count}});
      first += count;
    }
    auto const kind = dense_kind(rule.kind);
    for (int t = 1; t <= 100; ++t) {
      auto const values = gradients(total);
      auto const gradient = this->upload(values);
      std::vector<DenseUpdate> updates;
      first = 0;
      for (std::size_t k = 0; k < counts.size(); ++k) {
        updates.push_back({weights.data() + first,
                           gradient.data() + first,
                           has_first(kind) ? state0.data() + first : nullptr,
                           has_second(kind) ? state1.data() + first : nullptr,
                           counts[k],
                           numbers_of(rule)});
        std::vector<double> const of_row(values.begin() + first,
                                         values.begin() + first + counts[k]);
        if (counts[k] > 0) {
          follow_the_paper(expected[k], rule, of_row, t, rule.learning_rate, false);
        }
        first += counts[k];
      }
      auto const memory = this->workspace(dense_workspace_bytes(rule.kind, updates));
      advance_step(this->stream(), rule, step.data());
      update_dense(this->stream(), rule, step.data(), updates, memory.data());
      this->synchronise();  // the gradients of this step go
      if (t == 1 || t == 100) {
        auto const moved = this->read(weights);
        std::size_t at = 0;
        for (auto const& row : expected) {
          expect_within(moved, row, at, t == 1 ? 1e-6 : 1e-5, "weight");
          at += row.weights.size();
        }
        EXPECT_NE(moved, start);
      }
    }
  }

  void expect_rows(OptimizerRule const& rule, std::int64_t width) {
    constexpr std::int64_t kRows = 40;
    auto const start = this->random.reals(kRows * width, 1.0F, 2.0F);
    auto const table = this->upload(start);
    auto const state0 = this->upload(std::vector<float>(start.size(), 0.0F));
    auto const state1 = this->upload(std::vector<float>(start.size(), 0.0F));
    auto const step = this->upload(std::vector{StepState{}});
    std::vector<ReferenceRow> expected;
    for (std::int64_t row = 0; row < kRows; ++row) {
      expected.push_back({{start.begin() + row * width, start.begin() + (row + 1) * width}});
    }
    for (int t = 1; t <= 100; ++t) {
      // Rows 0 to 4 have no gradient; the others have one in most steps.
      std::vector<std::int64_t> ids;
      for (std::int64_t row = 5; row < kRows; ++row) {
        if (t == 1 || this->random.integer(0, 9) != 0) {
          ids.push_back(row);
        }
      }
      auto const count = static_cast<std::int64_t>(ids.size());
      ids.push_back(0);  // beyond the count
      auto values = gradients(count * width);
      for (std::int64_t u = 0; u < count; ++u) {
        follow_the_paper(expected[static_cast<std::size_t>(ids[static_cast<std::size_t>(u)])],
                         rule,
                         {values.begin() + u * width, values.begin() + (u + 1) * width},
                         t,
                         rule.learning_rate,
                         true);
      }
      values.resize(values.size() + static_cast<std::size_t>(width), std::nanf(""));
      auto const gradient = this->upload(values);
      auto const rows = this->upload(ids);
      auto const existing = this->scalar(count);
      std::vector const updates{
          RowUpdate{.table = table.data(),
                    .dtype = DType::float32,
                    .numbers = numbers_of(rule),
                    .width = width,
                    .row_ids = rows.data(),
                    .row_count = existing.data(),
                    .capacity = count + 1,
                    .gradients = gradient.data(),
                    .state0 = has_first(rule.kind) ? state0.data() : nullptr,
                    .state1 = has_second(rule.kind) ? state1.data() : nullptr}};
      advance_step(this->stream(), rule, step.data());
      update_rows(this->stream(), rule, step.data(), updates);
      this->synchronise();  // the gradients of this step go
      if (t == 1 || t == 100) {
        auto const moved = this->read(table);
        for (std::int64_t row = 0; row < kRows; ++row) {
          SCOPED_TRACE(fmt::format("row {}", row));
          auto const at = static_cast<std::size_t>(row * width);
          expect_within(moved,
                        expected[static_cast<std::size_t>(row)],
                        at,
                        row < 5  ? 0.0
                        : t == 1 ? 1e-6
                                 : 1e-5,
                        "weight");
        }
      }
    }
  }

  /// Expects the differences of the weights in each of the first steps. The weights begin around 0,
  /// and their rounding is small beside a step.
  void expect_steps(OptimizerRule const& rule, std::int64_t width, bool is_row) {
    auto const start = this->random.reals(width, -0.001F, 0.001F);
    auto const weights = this->upload(start);
    auto const state0 = this->upload(std::vector<float>(start.size(), 0.0F));
    auto const state1 = this->upload(std::vector<float>(start.size(), 0.0F));
    auto const step = this->upload(std::vector{StepState{}});
    auto const row = this->upload(std::vector<std::int64_t>{0});
    auto const one = this->scalar(1);
    ReferenceRow expected{{start.begin(), start.end()}};
    auto const kind = is_row ? OptimizerKind{rule.kind} : dense_kind(rule.kind);
    auto* const first = has_first(kind) ? state0.data() : nullptr;
    auto* const second = has_second(kind) ? state1.data() : nullptr;
    auto before = start;
    for (int t = 1; t <= 3; ++t) {
      auto const expected_before = expected.weights;
      auto const values = gradients(width);
      auto const gradient = this->upload(values);
      follow_the_paper(
          expected, rule, {values.begin(), values.end()}, t, rule.learning_rate, is_row);
      advance_step(this->stream(), rule, step.data());
      if (is_row) {
        update_rows(this->stream(),
                    rule,
                    step.data(),
                    std::vector{RowUpdate{.table = weights.data(),
                                          .dtype = DType::float32,
                                          .numbers = numbers_of(rule),
                                          .width = width,
                                          .row_ids = row.data(),
                                          .row_count = one.data(),
                                          .capacity = 1,
                                          .gradients = gradient.data(),
                                          .state0 = first,
                                          .state1 = second}});
      } else {
        std::vector const updates{
            DenseUpdate{weights.data(), gradient.data(), first, second, width, numbers_of(rule)}};
        auto const memory = this->workspace(dense_workspace_bytes(rule.kind, updates));
        update_dense(this->stream(), rule, step.data(), updates, memory.data());
        this->synchronise();  // the memory goes
      }
      auto const after = this->read(weights);
      for (std::size_t i = 0; i < after.size(); ++i) {
        double const moved = double{after[i]} - double{before[i]};
        double const right = expected.weights[i] - expected_before[i];
        constexpr double rounding = 0x1p-24;  // relative to each weight
        if (!expected.unclear[i]) {
          ASSERT_NEAR(
              moved,
              right,
              4e-6 * std::abs(right) + 4 * rounding * (std::abs(after[i]) + std::abs(before[i])))
              << "step " << t << ", element " << i;
        }
      }
      before = after;
    }
  }
};
TYPED_TEST_SUITE(OptimizerRulesTest, StreamKinds, StreamKindName);

TYPED_TEST(OptimizerRulesTest, steps_from_weights_around_0_are_those_of_the_paper) {
  for (auto const kind : kAllOptimizerKinds) {
    for (float const epsilon : {1e-8F, 1e-3F, 0.25F}) {
      for (std::int64_t const width : {1, 31, 130}) {
        for (bool const is_row : {false, true}) {
          SCOPED_TRACE(fmt::format("kind {}, epsilon {}, width {}, {}",
                                   static_cast<int>(kind),
                                   epsilon,
                                   width,
                                   is_row ? "a row" : "dense"));
          auto rule = tested_rule(kind, 0.05F, kNoClip);
          rule.epsilon = epsilon;
          this->expect_steps(rule, width, is_row);
        }
      }
    }
  }
}

TYPED_TEST(OptimizerRulesTest, dense_parameters_follow_the_paper_for_a_hundred_steps) {
  for (auto const kind : kAllOptimizerKinds) {
    for (float const decay : {0.0F, 0.05F}) {
      for (float const clip : {kNoClip, 0.5F}) {
        SCOPED_TRACE(
            fmt::format("kind {}, decay {}, clip {}", static_cast<int>(kind), decay, clip));
        this->expect_dense(tested_rule(kind, decay, clip));
      }
    }
  }
}

TYPED_TEST(OptimizerRulesTest, rows_follow_the_paper_for_a_hundred_steps) {
  for (auto const kind : kAllOptimizerKinds) {
    for (float const decay : {0.0F, 0.05F}) {
      for (std::int64_t const width : {1, 3, 4, 31, 64, 128, 130, 516}) {
        SCOPED_TRACE(
            fmt::format("kind {}, decay {}, width {}", static_cast<int>(kind), decay, width));
        this->expect_rows(tested_rule(kind, decay, decay > 0.0F ? 0.5F : kNoClip), width);
      }
    }
  }
}

TYPED_TEST(OptimizerRulesTest, rows_of_half_precision_are_rounded_once_a_step) {
  auto const check = [this]<class T>(T, OptimizerKind kind, std::int64_t width, double half_unit) {
    SCOPED_TRACE(fmt::format("kind {}, width {}", static_cast<int>(kind), width));
    constexpr std::int64_t kRows = 20;
    auto rule = tested_rule(kind, 0.05F, 0.5F);
    rule.learning_rate = 0.05F;  // so that a step is more than a rounding
    std::vector<T> start;
    for (float const value : this->random.reals(kRows * width, 1.0F, 2.0F)) {
      start.push_back(from_float<T>(value));
    }
    auto const table = this->upload(start);
    auto const state0 = this->upload(std::vector<float>(start.size(), 0.0F));
    auto const state1 = this->upload(std::vector<float>(start.size(), 0.0F));
    auto const step = this->upload(std::vector{StepState{}});
    std::vector<std::int64_t> ids(kRows);
    std::iota(ids.begin(), ids.end(), 0);
    auto const rows = this->upload(ids);
    auto const count = this->scalar(kRows);
    auto const values = this->gradients(kRows * width);
    auto const gradient = this->upload(values);
    std::vector const updates{RowUpdate{.table = table.data(),
                                        .dtype = dtype_of<T>,
                                        .numbers = numbers_of(rule),
                                        .width = width,
                                        .row_ids = rows.data(),
                                        .row_count = count.data(),
                                        .capacity = kRows,
                                        .gradients = gradient.data(),
                                        .state0 = has_first(kind) ? state0.data() : nullptr,
                                        .state1 = has_second(kind) ? state1.data() : nullptr}};
    advance_step(this->stream(), rule, step.data());
    update_rows(this->stream(), rule, step.data(), updates);
    auto const moved = this->read(table);
    for (std::int64_t row = 0; row < kRows; ++row) {
      ReferenceRow expected{{}};
      for (std::int64_t c = 0; c < width; ++c) {
        expected.weights.push_back(to_float(start[static_cast<std::size_t>(row * width + c)]));
      }
      expected.first.resize(expected.weights.size());
      expected.second.resize(expected.weights.size());
      expected.unclear.resize(expected.weights.size());
      follow_the_paper(expected,
                       rule,
                       {values.begin() + row * width, values.begin() + (row + 1) * width},
                       1,
                       rule.learning_rate,
                       true);
      for (std::int64_t c = 0; c < width; ++c) {
        double const weight = expected.weights[static_cast<std::size_t>(c)];
        ASSERT_NEAR(to_float(moved[static_cast<std::size_t>(row * width + c)]),
                    weight,
                    (half_unit * 1.001 + 1e-6) * std::abs(weight));
      }
    }
  };
  for (auto const kind : kAllOptimizerKinds) {
    for (std::int64_t const width : {3, 4, 128, 131, 260}) {
      check(float16{}, kind, width, 0x1p-11);
      check(bfloat16{}, kind, width, 0x1p-8);
    }
  }
}

TYPED_TEST(OptimizerRulesTest, a_decay_of_zero_leaves_an_infinite_weight_alone) {
  auto const weight = this->upload(std::vector{kNoClip});
  auto const gradient = this->upload(std::vector{1.0F});
  std::vector const updates{DenseUpdate{weight.data(), gradient.data(), nullptr, nullptr, 1}};
  update_dense(this->stream(), rule_of(OptimizerKind::sgd), nullptr, updates);
  EXPECT_EQ(this->read(weight).front(), kNoClip);
}

TYPED_TEST(OptimizerRulesTest, ftrl_makes_weights_exactly_zero_and_rests_at_rate_zero) {
  OptimizerRule rule{.kind = OptimizerKind::ftrl, .learning_rate = 0.1F};
  rule.l1 = 0.5F;
  auto const weights = this->upload(std::vector{0.0F, 0.0F});
  auto const state0 = this->upload(std::vector{0.0F, 0.0F});
  auto const state1 = this->upload(std::vector{0.0F, 0.0F});
  auto const gradient = this->upload(std::vector{0.4F, -2.0F});
  auto const step = this->upload(std::vector{StepState{}});
  std::vector const updates{
      DenseUpdate{weights.data(), gradient.data(), state0.data(), state1.data(), 2}};
  advance_step(this->stream(), rule, step.data());
  update_dense(this->stream(), rule, step.data(), updates);
  auto const moved = this->read(weights);
  EXPECT_EQ(moved[0], 0.0F);
  EXPECT_NEAR(moved[1], 1.5 / ((1.0 + 2.0) / 0.1), 1e-7);
  set_base_rate(this->stream(), 0.0F, step.data());
  advance_step(this->stream(), rule, step.data());
  update_dense(this->stream(), rule, step.data(), updates);
  EXPECT_EQ(this->read(weights), moved);
  EXPECT_EQ(this->read(state1), (std::vector{0.4F * 0.4F, 4.0F}));
}

TYPED_TEST(OptimizerRulesTest, the_rate_follows_the_schedule_and_its_base) {
  using Form = Schedule::Numbers::Form;
  std::vector<float> const factors = {0.5F, 2.0F, 0.25F};
  auto const table = this->upload(factors);
  for (auto const& numbers : {Schedule::Numbers{},
                              Schedule::Numbers{Form::constant, 0, 0.0F, 1.0F, 3, 0.1F, 2.0F},
                              Schedule::Numbers{Form::step_decay, 2, 0.5F, 1.0F, 3, 0.0F, 1.0F},
                              Schedule::Numbers{Form::polynomial, 7, 0.1F, 2.0F, 2, 0.0F, 1.0F},
                              Schedule::Numbers{Form::cosine, 7, 0.1F, 1.0F, 2, 0.0F, 1.0F},
                              Schedule::Numbers{Form::tabulated, 3, 0.0F, 1.0F, 0, 0.0F, 1.0F}}) {
    auto const rule = rule_of(OptimizerKind::sgd);
    auto const state = this->upload(std::vector<StepState>(1));
    reset_step(this->stream(), state.data());
    StepAdvance const advance{rule, 0.5F, numbers, table.data()};
    for (std::int64_t step = 0; step < 10; ++step) {
      float const base = step < 5 ? 0.5F : 0.125F;
      if (step == 5) {
        set_base_rate(this->stream(), base, state.data());
      }
      this->replay([&](TypeParam stream) { advance_step(stream, advance, state.data()); });
      auto const now = this->read(state).front();
      EXPECT_EQ(now.step, step + 1);
      EXPECT_EQ(now.base_rate, step < 5 ? -1.0F : base);
      EXPECT_FLOAT_EQ(now.rate,
                      base * static_cast<float>(schedule_factor(numbers, factors.data(), step)))
          << "step " << step << " of form " << static_cast<int>(numbers.form);
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
