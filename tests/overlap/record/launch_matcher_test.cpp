// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/launch_matcher.hpp"

#include <gtest/gtest.h>

namespace {

using msstream::overlap::record::LaunchMatcher;

TEST(OverlapLaunchMatcher, work_without_a_call_is_told_after_two_ticks) {
  LaunchMatcher matcher;
  matcher.call(1);
  matcher.work(1);
  matcher.work(2);
  EXPECT_EQ(matcher.tick(), 0U);
  EXPECT_EQ(matcher.tick(), 0U);
  EXPECT_EQ(matcher.tick(), 1U);
  matcher.call(2);  // late
  EXPECT_EQ(matcher.tick(), 0U);
}

TEST(OverlapLaunchMatcher, calls_that_launch_nothing_hide_no_work) {
  LaunchMatcher matcher;
  for (unsigned call = 10; call < 20; ++call) {
    matcher.call(call);
  }
  matcher.work(3);
  EXPECT_EQ(matcher.tick() + matcher.tick(), 0U);
  EXPECT_EQ(matcher.tick(), 1U);
}

}  // namespace
