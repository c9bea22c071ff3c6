// SPDX-License-Identifier: Apache-2.0
// Tests which waits of branches count as needed, where a recording does not tell.
#include "overlap/cases/case.hpp"
#include "overlap/find/find.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace msstream::overlap::cases {
namespace {

Report report_of_case(std::string_view name, bool fixed) {
  auto const all = later_cases();
  auto const found = std::ranges::find(all, name, &Case::name);
  return find(found->build(fixed).at(0));
}

TEST(ForksTest, a_branch_beside_other_work_needs_its_producer) {
  auto const report = report_of_case("fork_behind_the_producer", false);
  for (auto const& finding : report.findings) {
    EXPECT_EQ(finding.cause, Cause::true_dependency);
  }
}

/// The first kernel stays needed: the prediction is the time of the fixed twin.
TEST(ForksTest, a_branch_beside_nothing_was_forked_late) {
  auto const report = report_of_case("fork_behind_five", false);
  ASSERT_FALSE(report.findings.empty());
  auto const& finding = report.findings.front();
  EXPECT_EQ(finding.cause, Cause::false_dependency);
  ASSERT_TRUE(finding.prediction && finding.prediction->range);
  auto const fixed = static_cast<double>(report_of_case("fork_behind_five", true).window.length());
  EXPECT_NEAR(static_cast<double>(finding.prediction->after), fixed, 0.05 * fixed);
}

}  // namespace
}  // namespace msstream::overlap::cases
