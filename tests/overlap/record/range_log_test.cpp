// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/range_log.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace {

using msstream::overlap::record::RangeLog;

std::vector<bool>& switched() {
  static std::vector<bool> calls;
  return calls;
}

class OverlapRangeLog : public testing::Test {
 protected:
  OverlapRangeLog() {
    (void)log().take(true);
    RangeLog::renew();  // as in a child of fork()
    switched().clear();
  }
  static RangeLog& log() { return RangeLog::of_process(); }
};

TEST_F(OverlapRangeLog, ranges_nest_by_domain) {
  std::string const domain = "library";
  log().keep(true);
  EXPECT_EQ(log().push(nullptr, "outer"), 0);
  EXPECT_EQ(log().push(&domain, "theirs"), 0);
  EXPECT_EQ(log().push(nullptr, "inner"), 1);
  EXPECT_EQ(log().pop(&domain), 0);
  EXPECT_EQ(log().pop(nullptr), 1);
  EXPECT_EQ(log().pop(nullptr), 0);
  EXPECT_EQ(log().pop(nullptr), -1);
  auto const ranges = log().take(false);
  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_EQ(ranges[0].name, "theirs");
  EXPECT_EQ(ranges[1].name, "inner");
  EXPECT_LE(ranges[2].begin, ranges[1].begin);
  EXPECT_GE(ranges[2].end, ranges[1].end);
}

TEST_F(OverlapRangeLog, a_range_that_a_thread_left_open_is_not_lost) {
  log().keep(true);
  std::thread([] { (void)log().push(nullptr, "open"); }).join();
  EXPECT_TRUE(log().take(false).empty());
  auto const ranges = log().take(true);
  ASSERT_EQ(ranges.size(), 1U);
  EXPECT_EQ(ranges[0].end, 0);
}

TEST_F(OverlapRangeLog, the_chosen_range_switches_at_its_first_begin_and_last_end) {
  std::string const domain = "library";
  log().watch("library/step", [](bool begins) { switched().push_back(begins); });
  (void)log().push(nullptr, "step");  // of another domain
  EXPECT_TRUE(switched().empty());
  (void)log().push(&domain, "step");
  auto const id = log().start(&domain, "step");
  log().pop(&domain);
  EXPECT_EQ(switched(), std::vector<bool>{true});
  log().end(id);
  EXPECT_EQ(switched(), (std::vector<bool>{true, false}));
}

TEST_F(OverlapRangeLog, without_a_recording_only_open_ranges_are_known) {
  (void)log().push(nullptr, "over");
  log().pop(nullptr);
  EXPECT_TRUE(log().take(true).empty());
}

}  // namespace
