// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"

#include <msstream/ops/schedule.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<double> factors_of(Schedule const& schedule, std::int64_t steps) {
  std::vector<double> factors;
  for (std::int64_t step = 0; step < steps; ++step) {
    factors.push_back(schedule.factor(step));
  }
  return factors;
}
void expect_factors(Schedule const& schedule, std::vector<double> const& expected) {
  auto const factors = factors_of(schedule, static_cast<std::int64_t>(expected.size()));
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(factors[step], expected[step], 1e-7) << "step " << step;
  }
}

TEST(ScheduleTest, warms_up_and_stays) {
  expect_factors(Schedule(), {1, 1, 1});
  expect_factors(Schedule::constant({.steps = 4}), {0.25, 0.5, 0.75, 1, 1, 1});
  expect_factors(Schedule::constant({.steps = 2, .from = 0.5F}), {0.75, 1, 1});
  expect_factors(Schedule::constant({.steps = 2, .power = 2.0F}), {0.25, 1, 1});
}

TEST(ScheduleTest, decays_in_steps) {
  expect_factors(Schedule::step_decay({.every = 2, .factor = 0.5F}), {1, 1, 0.5, 0.5, 0.25, 0.25});
  expect_factors(Schedule::step_decay({.every = 2, .factor = 0.0F, .warmup = {.steps = 1}}),
                 {1, 1, 1, 0, 0});
}

TEST(ScheduleTest, decays_by_a_polynomial_and_stays_at_its_end) {
  expect_factors(Schedule::polynomial({.steps = 4}), {1, 0.75, 0.5, 0.25, 0, 0, 0});
  expect_factors(Schedule::polynomial({.steps = 4, .end = 0.5F, .power = 2.0F}),
                 {1, 0.5 + 0.5 * 0.5625, 0.625, 0.5 + 0.5 * 0.0625, 0.5, 0.5});
  expect_factors(Schedule::polynomial({.steps = 4, .warmup = {.steps = 2}}), {0.5, 1, 1, 0.5, 0});
}

TEST(ScheduleTest, decays_by_a_cosine_and_stays_at_its_end) {
  auto const at = [](double p) { return 0.25 + 0.75 * 0.5 * (1 + std::cos(std::numbers::pi * p)); };
  expect_factors(Schedule::cosine({.steps = 5, .end = 0.25F, .warmup = {.steps = 1}}),
                 {1, 1, at(0.25), at(0.5), at(0.75), 0.25, 0.25});
}

TEST(ScheduleTest, tabulates_a_function_and_stays_at_its_last_value) {
  int calls = 0;
  auto const schedule = Schedule::tabulated(3, [&](std::int64_t step) {
    ++calls;
    return 1.0 / static_cast<double>(1 + step);
  });
  EXPECT_EQ(calls, 3);
  expect_factors(schedule, {1, 0.5, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  EXPECT_EQ(calls, 3);
}

TEST(ScheduleTest, refuses_numbers_out_of_range_by_name) {
  auto const refused = [](auto call, char const* name, char const* range) {
    EXPECT_THAT(message_of<std::invalid_argument>(call), AllOf(HasSubstr(name), HasSubstr(range)));
  };
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  refused([&] { (void)Schedule::constant({.steps = -1}); }, "-1 steps", "0 or more");
  refused([&] { (void)Schedule::constant({.from = nan}); }, "warm-up from", "[0, infinity)");
  refused([&] { (void)Schedule::constant({.power = 0.0F}); }, "warm-up power", "(0, infinity)");
  refused([&] { (void)Schedule::step_decay({.every = 0}); }, "every 0 steps", "1 or more");
  refused([&] { (void)Schedule::step_decay({.every = 1, .factor = -1.0F}); },
          "factor of -1",
          "[0, inf");
  refused([&] { (void)Schedule::polynomial({.steps = 0}); }, "0 steps", "more steps");
  refused(
      [&] { (void)Schedule::polynomial({.steps = 4, .power = nan}); }, "power of nan", "(0, inf");
  refused(
      [&] { (void)Schedule::cosine({.steps = 4, .end = -0.5F}); }, "end of -0.5", "[0, infinity)");
  refused([&] { (void)Schedule::cosine({.steps = 4, .warmup = {.steps = 4}}); },
          "4 steps with a warm-up of 4",
          "more steps");
  refused(
      [&] { (void)Schedule::tabulated(0, [](std::int64_t) { return 1.0; }); }, "0 steps", "1 or");
  refused([&] { (void)Schedule::tabulated(2, {}); }, "without a function", "table");
  refused([&] { (void)Schedule::tabulated(2, [](std::int64_t s) { return s == 1 ? -1.0 : 1.0; }); },
          "a factor of -1 in step 1",
          "[0, infinity)");
  refused([&] { (void)Schedule().factor(-1); }, "step -1", "0 or more");
}

}  // namespace
}  // namespace msstream::testing
