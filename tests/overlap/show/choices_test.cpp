// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/choices.hpp"

#include "overlap/show/example.hpp"
#include "overlap/show/summary.hpp"
#include "overlap/show/wait_arrows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace msstream::overlap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Call>
std::string refusal_of(Call call) {
  try {
    call();
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OverlapChoices, a_window_is_two_times) {
  auto const recording = std::move(Example().recording);
  EXPECT_EQ(window_of(recording, "10us:0.05"), (Interval{10'000, 50'000}));
  EXPECT_EQ(window_of(recording, "5 ns:1s"), (Interval{5, 1'000'000'000}));
  EXPECT_EQ(window_of(recording, ":40us"), (Interval{10'000, 40'000}));
  EXPECT_EQ(window_of(recording, "40us:"), (Interval{40'000, 100'000}));
}

TEST(OverlapChoices, refused_windows_say_what_is_expected) {
  auto const recording = std::move(Example().recording);
  std::string const expected =
      "; expected BEGIN:END, such as 10ms:20ms, or a name; traces/example.json has work in "
      "0.01ms:0.1ms";
  auto const refusal = [&](char const* text) {
    return refusal_of([&] { (void)window_of(recording, text); });
  };
  EXPECT_EQ(refusal("5:5"), "'5:5' is empty" + expected);
  EXPECT_EQ(refusal("2ms:1"), "'2ms:1' ends before it begins" + expected);
  EXPECT_EQ(refusal("1s:"), "'1s:' ends before it begins" + expected);
  for (std::string const text :
       {"nan:1", "1:inf", "1e999:1", "1h:2h", "a:b", "1:2:3", "5", "epoch"}) {
    EXPECT_EQ(refusal(text.c_str()),
              "'" + text + "' is neither a window nor the name of a range" + expected +
                  ", and ranges: step");
  }
}

TEST(OverlapChoices, a_window_is_that_of_ranges) {
  auto recording = std::move(Example().recording);
  EXPECT_EQ(window_of(recording, "step"), (Interval{0, 90'000}));
  EXPECT_EQ(window_of(recording, "st*"), (Interval{0, 90'000}));
  auto on_device = recording.ranges.front();
  on_device.kind = RangeKind::on_device;
  on_device.time = {10'000, 60'000};
  recording.ranges.push_back(on_device);
  EXPECT_EQ(window_of(recording, "step"), (Interval{10'000, 60'000}));
  EXPECT_THAT(refusal_of([&] { (void)window_of(recording, "epoch"); }),
              HasSubstr("and ranges: step"));
}

TEST(OverlapChoices, an_unknown_cause_lists_all) {
  auto const refusal = refusal_of([] { (void)require_cause("slow"); });
  for (auto const& text : cause_texts()) {
    EXPECT_THAT(refusal, HasSubstr(std::string(text.id)));
    auto const explanation = explanation_of(text.cause, 80, "/pages/overlap.md");
    EXPECT_THAT(explanation, HasSubstr("what helps"));
    EXPECT_THAT(explanation, HasSubstr("more: /pages/overlap.md#" + std::string(text.id) + "\n"));
  }
}

/// Nobody can tell whether the program needs the waits, and without a gain nothing is lost.
TEST(OverlapChoices, chains_of_work_fail_if_they_are_named) {
  Example example;
  auto& chain = example.report.findings[0];
  chain.cause = Cause::true_dependency;
  chain.lost = 30'000;
  chain.prediction =
      Prediction{100'000, 100'000, PredictedRange{.least = 80'000, .most = 100'000, .why = ""}};
  example.report.findings.resize(1);
  auto const failures = [&](char const* text) {
    return failures_of(example.explained(), parse_fail_on(text));
  };
  EXPECT_THAT(failures("true-dependency:20%"),
              ElementsAre(HasSubstr("lost 30% of the window, of which its fix gains at most 20%")));
  EXPECT_EQ(failures("any").size(), 0U);
  chain.cause = Cause::copy_engine;
  EXPECT_EQ(failures("any").size(), 1U);
  chain.is_guess = true;
  EXPECT_EQ(failures("any").size(), 0U) << "only what is certain counts";
  chain.prediction->range->most = 90'000;
  EXPECT_THAT(
      failures("any"),
      ElementsAre(HasSubstr("lost 30% of the window, of which its fix gains at least 10%")));
  chain.prediction = Prediction{100'000, 100'000, {}};
  EXPECT_EQ(failures("any").size(), 0U);
}

TEST(OverlapChoices, conditions_meet_findings) {
  Example const example;
  auto const failures = [&](char const* text) {
    return failures_of(example.explained(), parse_fail_on(text));
  };
  EXPECT_THAT(failures("host-busy"),
              ElementsAre("traces/example.json: host-busy on GPU 3 lost 30% of the window"));
  EXPECT_EQ(failures("host-busy:30%").size(), 1U);
  EXPECT_EQ(failures("host-busy:0.31").size(), 0U);
  EXPECT_EQ(failures("any").size(), 2U);
  EXPECT_EQ(failures("copy-engine,any:20%").size(), 1U);
  EXPECT_EQ(
      refusal_of([] { (void)parse_fail_on("any,host-busy:2"); }),
      "'host-busy:2': expected a share of the window from 0 to 1 after the colon, such as 0.05 "
      "or 5%");
  EXPECT_EQ(failures(" copy-engine , any:20% ").size(), 1U);
  EXPECT_EQ(refusal_of([] { (void)parse_fail_on("host-busy,"); }),
            "'host-busy,': expected a cause or 'any' after the last comma");
  EXPECT_EQ(refusal_of([] { (void)parse_fail_on("any,,host-busy"); }),
            "'any,,host-busy': expected a cause or 'any' before each comma");
  EXPECT_EQ(refusal_of([] { (void)parse_fail_on(" "); }), "' ': expected a cause or 'any'");
}

TEST(OverlapChoices, one_device_keeps_its_findings_alone) {
  Example example;
  example.recording.devices.emplace_back().number = 4;
  auto& other = example.report.devices.emplace_back(example.report.devices.front());
  other.device = 1;
  example.report.findings.front().device = 1;
  auto const three = only_device(example.recording, example.report, 3);
  ASSERT_EQ(three.findings.size(), 1U);
  EXPECT_EQ(three.findings[0].cause, Cause::launch_bound);
  EXPECT_TRUE(three.findings[0].overlaps_with.empty());
  EXPECT_THAT(refusal_of([&] { (void)only_device(example.recording, example.report, 9); }),
              HasSubstr("it has: 3, 4"));
}

TEST(OverlapChoices, waits_lead_from_the_recorded_work_to_the_waiting_one) {
  auto const recording = std::move(Example().recording);
  EXPECT_THAT(wait_arrows(recording), ElementsAre(WaitArrow{0, 1}));
}

TEST(OverlapChoices, a_comparison_pairs_devices_by_their_numbers) {
  Example const one;
  auto both = summary_of(one.explained());
  ASSERT_EQ(both.devices.size(), 1U);
  auto const number = both.devices.front().number;
  auto second = both;
  second.devices.front().number = number + 1;
  both.devices.push_back(second.devices.front());
  auto const comparison = compare({&both, 1}, {&second, 1});
  ASSERT_EQ(comparison.front().devices.size(), 1U);
  EXPECT_EQ(comparison.front().devices.front().before, number + 1);
  EXPECT_THAT(comparison.front().only_before, ElementsAre(number));
  EXPECT_THAT(comparison.front().only_after, ElementsAre());
  EXPECT_THAT(terminal_text(comparison, {}), HasSubstr("not compared"));
  EXPECT_THAT(json_text(comparison), HasSubstr("\"only_before\": ["));
  // A program may have moved to another device.
  auto const moved = compare(std::vector{summary_of(one.explained())}, {&second, 1});
  EXPECT_EQ(moved.front().devices.size(), 1U);
}

TEST(OverlapChoices, a_comparison_says_what_changed) {
  Example const before;
  Example after;
  after.report.window = {0, 70'000};
  after.report.findings.erase(after.report.findings.begin());
  after.report.findings.front().cause = Cause::copy_engine;
  after.report.devices.front().times.pop_back();
  std::vector<Summary> const old{summary_of(before.explained())};
  std::vector<Summary> const now{summary_of(after.explained())};
  auto const comparisons = compare(old, now);
  auto const text = terminal_text(comparisons, {});
  EXPECT_THAT(text, HasSubstr("window: 100 µs → 70.0 µs, 1.43x as fast"));
  EXPECT_THAT(text, HasSubstr("finding gone: host-busy, 30.0 µs → 0 ns"));
  EXPECT_THAT(text, HasSubstr("finding new: copy-engine, 0 ns → 10.0 µs"));
  EXPECT_THAT(json_text(comparisons), HasSubstr("\"fate\": \"gone\""));
  EXPECT_THAT(refusal_of([&] { (void)compare(old, {}); }), HasSubstr("found 1 and 0"));
}

}  // namespace
}  // namespace msstream::overlap
