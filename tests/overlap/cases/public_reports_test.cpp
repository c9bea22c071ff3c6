// SPDX-License-Identifier: Apache-2.0
// What the tool says of programs whose answer is known: public reports rebuilt as small recordings.
#include "overlap/cases/case.hpp"
#include "overlap/find/find.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap::cases {
namespace {

/// The findings of the first rank.
std::vector<Finding> findings_of(std::vector<Recording> const& ranks) {
  return ranks.size() == 1 ? find(ranks.front()).findings : find(ranks).front().findings;
}

bool has(std::vector<Finding> const& findings, Cause cause) {
  return std::ranges::any_of(findings, [&](auto const& one) { return one.cause == cause; });
}

std::string names_of(std::vector<Finding> const& findings) {
  std::string names;
  for (auto const& finding : findings) {
    names += (names.empty() ? "" : ", ") + std::string(text_of(finding.cause).id);
  }
  return names.empty() ? "none" : names;
}

template <class Param>
std::string name_of_case(testing::TestParamInfo<Param> const& tested) {
  return std::string(tested.param.name);
}

class PublicReport : public testing::TestWithParam<Case> {};

/// Checks what must hold of any report, whatever it says.
void expect_adds_up(Report const& report) {
  for (auto const& device : report.devices) {
    Ns at = report.window.begin;
    for (auto const& span : device.spans) {
      EXPECT_EQ(span.time.begin, at);
      EXPECT_GT(span.time.length(), 0);
      EXPECT_EQ(span.cause.has_value(),
                span.kind == TimeClass::lost || span.kind == TimeClass::idle);
      at = span.time.end;
    }
    EXPECT_EQ(at, report.window.end);
    Ns sum = 0;
    for (auto const& time : device.times) {
      sum += time.time;
    }
    EXPECT_EQ(sum, report.window.length());
    Ns counted = 0;
    for (auto const time : device.at_once) {
      counted += time;
    }
    EXPECT_EQ(counted, report.window.length());
  }
  for (auto const& finding : report.findings) {
    Ns lost = 0;
    Ns before = report.window.begin;
    for (auto const& interval : finding.intervals) {
      EXPECT_GE(interval.begin, before);
      EXPECT_LE(interval.end, report.window.end);
      lost += interval.length();
      before = interval.end;
    }
    EXPECT_EQ(lost, finding.lost);
    EXPECT_FALSE(finding.evidence.empty());
    EXPECT_LE(finding.evidence.size(), kMostEvidence);
    EXPECT_FALSE(finding.advice.empty());
    EXPECT_FALSE(finding.summary.empty());
    if (finding.prediction) {
      EXPECT_LE(finding.prediction->after, finding.prediction->before);
    }
  }
}

TEST_P(PublicReport, adds_up) {
  for (bool const fixed : {false, true}) {
    auto const ranks = GetParam().build(fixed);
    auto const reports = ranks.size() == 1 ? std::vector<Report>{find(ranks.front())} : find(ranks);
    ASSERT_EQ(reports.size(), ranks.size());
    for (auto const& report : reports) {
      expect_adds_up(report);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PublicReport, testing::ValuesIn(all_cases()), name_of_case<Case>);

/// How well the tool does: prints each case, then a row for each expected cause with how often each
/// cause was found first.
TEST(PublicReports, nine_of_ten_are_explained) {
  auto const cases = all_cases();
  std::array<std::array<int, kCauses + 1>, kCauses> found{};  // the last column: no finding
  int right = 0;
  int clean = 0;
  int seconds = 0;
  int with_second = 0;
  int reports = 0;
  int reports_right = 0;
  for (auto const& one : cases) {
    auto const planted = findings_of(one.build(false));
    auto const fixed = findings_of(one.build(true));
    bool const is_right = !planted.empty() && planted.front().cause == one.expected;
    bool const is_clean = !has(fixed, one.expected);
    right += is_right ? 1 : 0;
    clean += is_clean ? 1 : 0;
    if (!one.report.empty()) {
      ++reports;
      reports_right += is_right ? 1 : 0;
    }
    if (one.second) {
      ++with_second;
      seconds += has(planted, *one.second) ? 1 : 0;
    }
    auto const column = planted.empty() ? kCauses : static_cast<int>(planted.front().cause);
    ++found[static_cast<std::size_t>(one.expected)][static_cast<std::size_t>(column)];
    std::printf("%-5s %-5s %-26s %-32s expected %-22s found %s; fixed: %s\n",
                is_right ? "right" : "WRONG",
                is_clean ? "clean" : "STAYS",
                std::string(one.name).c_str(),
                std::string(one.report).c_str(),
                std::string(text_of(one.expected).id).c_str(),
                names_of(planted).c_str(),
                names_of(fixed).c_str());
  }
  std::printf("\nexpected cause: how often each cause was found first\n");
  for (std::size_t expected = 0; expected < kCauses; ++expected) {
    std::string row;
    for (std::size_t cause = 0; cause <= kCauses; ++cause) {
      if (auto const count = found[expected][cause]; count > 0) {
        auto const id = cause == kCauses ? "none" : text_of(static_cast<Cause>(cause)).id;
        row += " " + std::string(id) + " " + std::to_string(count);
      }
    }
    if (!row.empty()) {
      auto const id = std::string(text_of(static_cast<Cause>(expected)).id);
      std::printf("%-24s%s\n", id.c_str(), row.c_str());
    }
  }
  auto const count = static_cast<int>(cases.size());
  std::printf(
      "%d of %d right, %d of %d public reports; %d of %d fixed twins without the cause; "
      "%d of %d second causes\n",
      right,
      count,
      reports_right,
      reports,
      clean,
      count,
      seconds,
      with_second);
  EXPECT_GE(right * 10, count * 9);
  EXPECT_GE(reports, 24);
  EXPECT_GE(reports_right * 10, reports * 9);
  EXPECT_GE(clean * 10, count * 9);
  EXPECT_EQ(seconds, with_second);
}

TEST(PublicReports, unknown_says_what_to_record) {
  for (auto const& one : unknown_cases()) {
    auto const ranks = one.build(false);
    auto const report = find(ranks.front());
    for (auto const& finding : report.findings) {
      EXPECT_EQ(finding.cause, Cause::unknown) << one.name;
      EXPECT_NE(finding.advice.find("ecord"), std::string::npos) << one.name << finding.advice;
    }
  }
}

class HealthyProgram : public testing::TestWithParam<Healthy> {};

TEST_P(HealthyProgram, has_no_findings) {
  auto const findings = findings_of(GetParam().build());
  EXPECT_TRUE(findings.empty()) << names_of(findings);
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         HealthyProgram,
                         testing::ValuesIn(healthy_cases()),
                         [](auto const& tested) { return std::string(tested.param.name); });
INSTANTIATE_TEST_SUITE_P(Waits,
                         HealthyProgram,
                         testing::ValuesIn(healthy_wait_cases()),
                         [](auto const& tested) { return std::string(tested.param.name); });
INSTANTIATE_TEST_SUITE_P(Later,
                         HealthyProgram,
                         testing::ValuesIn(healthy_later_cases()),
                         [](auto const& tested) { return std::string(tested.param.name); });

/// Kernels have other names, and nothing else: the report says the same.
TEST(PublicReports, names_do_not_matter) {
  for (auto const& one : all_cases()) {
    auto ranks = one.build(false);
    auto const before = findings_of(ranks);
    for (auto& rank : ranks) {
      for (auto& activity : rank.activities) {
        if (activity.kind == ActivityKind::kernel) {
          activity.name = rank.names.id_of("k" + std::to_string(activity.name));
        }
      }
    }
    auto const after = findings_of(ranks);
    EXPECT_EQ(names_of(before), names_of(after)) << one.name;
  }
}

}  // namespace
}  // namespace msstream::overlap::cases
