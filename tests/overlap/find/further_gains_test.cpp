// SPDX-License-Identifier: Apache-2.0
// Tests the notes on what is to be gained although no time is lost for it.
#include "overlap/cases/case.hpp"
#include "overlap/find/find.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace msstream::overlap::cases {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// One thread launches kernels of 30 us into four streams, at 12 us or 4 us a launch.
Report four_streams(Ns cost) {
  TraceBuilder program;
  std::vector<StreamNumber> const streams{
      program.stream(), program.stream(), program.stream(), program.stream()};
  for (int i = 0; i < 40; ++i) {
    for (auto const stream : streams) {
      program.thread().launch(stream, {.name = "short", .duration = 30 * us, .blocks = 20}, cost);
    }
  }
  return find(program.run());
}

TEST(FurtherGainsTest, launches_that_keep_streams_waiting_beside_others_are_noted) {
  auto const slow = four_streams(12 * us);
  EXPECT_TRUE(slow.findings.empty());
  EXPECT_THAT(slow.notes, Contains(HasSubstr("a graph is predicted to gain")));
  auto const fast = four_streams(4 * us);
  EXPECT_THAT(fast.notes, Not(Contains(HasSubstr("a graph is predicted to gain"))));
}

/// An allocation before each upload, and kernels after it, in one stream or in two.
Report allocations(bool one_stream) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const uploads = one_stream ? compute : program.stream();
  for (int i = 0; i < 20; ++i) {
    auto const uploaded = program.event();
    program.thread()
        .allocate(400 * us)
        .copy(uploads, CopyDirection::h2d, 8'000'000)
        .record(uploaded, uploads)
        .wait(compute, uploaded);
    for (int k = 0; k < 4; ++k) {
      program.thread().launch(
          compute, {.name = "op" + std::to_string(k), .duration = 60 * us, .blocks = 120});
    }
  }
  return find(program.run());
}

TEST(FurtherGainsTest, a_stream_with_two_roles_behind_another_cause_is_noted) {
  auto const one = allocations(true);
  ASSERT_EQ(one.findings.size(), 1U);
  EXPECT_EQ(one.findings.front().cause, Cause::driver_allocation);
  EXPECT_THAT(one.notes, Contains(HasSubstr("Once the findings are mended")));
  auto const two = allocations(false);
  EXPECT_THAT(two.notes, Not(Contains(HasSubstr("Once the findings are mended"))));
}

TEST(FurtherGainsTest, healthy_programs_have_nothing_further_to_gain) {
  for (auto const& list : {healthy_cases(), healthy_wait_cases(), healthy_later_cases()}) {
    for (auto const& healthy : list) {
      for (auto const& note : find(healthy.build().at(0)).notes) {
        EXPECT_THAT(note, Not(HasSubstr("predicted to gain"))) << healthy.name;
      }
    }
  }
}

}  // namespace
}  // namespace msstream::overlap::cases
