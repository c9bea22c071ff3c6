// SPDX-License-Identifier: Apache-2.0
// Tests which waits of branches count as needed, where a recording does not tell.
#include "overlap/cases/case.hpp"
#include "overlap/find/find.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace msstream::overlap::cases {
namespace {

Report report_of_case(std::string_view name,
                      bool fixed,
                      std::vector<Case> const& all = later_cases()) {
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

/// The prediction is the time with a communicator of its own; nothing is gained if what waits needs
/// both.
TEST(ForksTest, a_collective_behind_another_kind_gains_by_an_order_of_its_own) {
  for (auto const* const name : {"one_process_group", "serialised_collectives"}) {
    auto const report = report_of_case(name, false, collective_cases());
    ASSERT_FALSE(report.findings.empty()) << name;
    auto const& finding = report.findings.front();
    EXPECT_EQ(finding.cause, Cause::collective_order);
    ASSERT_TRUE(finding.prediction && finding.prediction->range) << name;
    auto const after = report_of_case(name, true, collective_cases()).window.length();
    EXPECT_NEAR(static_cast<double>(finding.prediction->after),
                static_cast<double>(after),
                0.1 * static_cast<double>(after))
        << name;
    EXPECT_EQ(finding.prediction->range->most, report.window.length());
  }
}

/// Gradients in two buckets beside a backward that is short, and an optimizer that waits once.
TEST(ForksTest, buckets_of_one_exchange_are_needed_together) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const comm = program.stream();
  for (int step = 0; step < 8; ++step) {
    for (int bucket = 0; bucket < 2; ++bucket) {
      auto const ready = program.event();
      Kernel reduce{.name = "ncclDevKernel_AllReduce", .duration = 150 * us, .blocks = 16};
      reduce.collective = CollectiveOf{.sequence = 2 * step + bucket, .bytes = 1 << 22};
      program.thread()
          .launch(compute, {.name = "backward", .duration = 40 * us, .blocks = 100})
          .record(ready, compute)
          .wait(comm, ready)
          .launch(comm, reduce);
    }
    auto const reduced = program.event();
    program.thread()
        .record(reduced, comm)
        .wait(compute, reduced)
        .launch(compute, {.name = "optimizer", .duration = 30 * us, .blocks = 100});
  }
  auto const report = find(program.run());
  for (auto const& finding : report.findings) {
    EXPECT_EQ(finding.cause, Cause::true_dependency);
  }
}

}  // namespace
}  // namespace msstream::overlap::cases
