// SPDX-License-Identifier: Apache-2.0
// The planted programs once more, with a host that waits at the end of each step, as training loops
// do that read the loss.
#include "overlap/cases/step_ends.hpp"

#include "overlap/cases/case.hpp"
#include "overlap/find/find.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace msstream::overlap::cases {
namespace {

Ns length_of(std::vector<Recording> const& ranks) {
  return ranks.front().extent()->length();
}

Report report_of(std::vector<Recording> const& ranks) {
  return ranks.size() == 1 ? find(ranks.front()) : find(ranks).front();
}

bool is_right(Case const& one, Report const& report) {
  if (report.findings.empty()) {
    return false;
  }
  auto const first = report.findings.front().cause;
  return first == one.expected || first == one.second;
}

class StepEndsTest : public testing::TestWithParam<StepEnd> {};

/// Whether no finding lost more than an unknown cause, which has no gain to come first by if losses
/// are nearly equal.
bool lost_most_to_unknown(Report const& report) {
  auto const most = std::ranges::max_element(report.findings, {}, &Finding::lost);
  return most != report.findings.end() && most->cause == Cause::unknown;
}

/// A planted cause that costs more than the waits of the host stays the first finding.
TEST_P(StepEndsTest, planted_causes_are_found_before_the_wait) {
  int tried = 0;
  for (auto const& one : all_cases()) {
    auto const without_waits = one.build(false);
    if (!is_right(one, report_of(without_waits))) {
      continue;  // nor is it explained without the waits
    }
    StepEnds const ends(GetParam());
    auto const planted = one.build(false);
    if (length_of(one.build(true)) >= length_of(without_waits)) {
      continue;  // the waits cost more
    }
    ++tried;
    auto const report = report_of(planted);
    std::string found;
    for (auto const& finding : report.findings) {
      found += " " + std::string(text_of(finding.cause).id);
    }
    bool const is_found =
        is_right(one, report) || (one.expected == Cause::unknown && lost_most_to_unknown(report));
    EXPECT_TRUE(is_found) << one.name << ":" << found;
  }
  EXPECT_GE(tried, 50);
}

INSTANTIATE_TEST_SUITE_P(
    Ends,
    StepEndsTest,
    testing::Values(StepEnd::synchronize_device, StepEnd::synchronize_stream, StepEnd::read_value),
    [](auto const& tested) {
      return std::string(tested.param == StepEnd::synchronize_device   ? "synchronize_device"
                         : tested.param == StepEnd::synchronize_stream ? "synchronize_stream"
                                                                       : "read_value");
    });

}  // namespace
}  // namespace msstream::overlap::cases
