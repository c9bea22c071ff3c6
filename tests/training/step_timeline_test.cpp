// SPDX-License-Identifier: Apache-2.0
#include "training/step_timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace msstream::training {
namespace {

TEST(EagerStepJsonTest, says_that_the_step_stands_for_a_replay) {
  trace::Timeline const timeline({{"dense", "group 0 compute", 0, 10, 1, 1}});
  EXPECT_EQ(eager_step_json(timeline, Replays::no), timeline.trace_json());
  for (std::optional<int> const rank : {std::optional<int>(), std::optional(3)}) {
    auto const trace = nlohmann::json::parse(eager_step_json(timeline, Replays::yes, rank));
    EXPECT_EQ(trace["otherData"]["step"], "an eager step, issued in place of a replay");
    auto events = trace["traceEvents"];
    EXPECT_EQ(events.front()["args"]["labels"], trace["otherData"]["step"]);
    EXPECT_EQ(events.front()["pid"], rank.value_or(1));
    events.erase(events.begin());
    EXPECT_EQ(events, nlohmann::json::parse(timeline.trace_json(rank))["traceEvents"]);
  }
}

TEST(TimelinesTextTest, is_about_captured_steps_alone) {
  EXPECT_EQ(timelines_text(false, true), "");
  EXPECT_THAT(timelines_text(true, true), ::testing::HasSubstr("timelines show eager ones"));
  EXPECT_THAT(timelines_text(true, false), ::testing::HasSubstr("one operation in timelines"));
}

}  // namespace
}  // namespace msstream::training
