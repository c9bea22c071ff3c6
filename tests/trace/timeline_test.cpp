// SPDX-License-Identifier: Apache-2.0
#include "trace/json_check.hpp"

#include <msstream/trace/timeline.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::trace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Returns a timeline of three lanes: a has spans from 0 to 4 us and 6 to 8 us, b from 2 to 7 us,
/// and c from 3 to 4 us.
Timeline three_lanes() {
  return Timeline({{"alpha", "a", 0, 4000},
                   {"beta", "b", 2000, 7000},
                   {"gamma", "c", 3000, 4000},
                   {"delta", "a", 6000, 8000}});
}

TEST(Timeline, is_as_long_as_its_last_end) {
  EXPECT_EQ(three_lanes().length_ns(), 8000);
  EXPECT_EQ(Timeline({}).length_ns(), 0);
}

TEST(Timeline, says_for_how_long_spans_overlapped) {
  EXPECT_EQ(three_lanes().overlapped_ns(1), 8000);
  EXPECT_EQ(three_lanes().overlapped_ns(), 3000);  // 2 to 4 us and 6 to 7 us
  EXPECT_EQ(three_lanes().overlapped_ns(3), 1000);
  EXPECT_EQ(three_lanes().overlapped_ns(4), 0);
}

TEST(Timeline, spans_that_only_touch_do_not_overlap) {
  Timeline const touching({{"x", "a", 0, 1000}, {"y", "b", 1000, 2000}});
  EXPECT_EQ(touching.overlapped_ns(), 0);
  EXPECT_EQ(touching.overlapped_ns(1), 2000);
}

TEST(Timeline, draws_a_line_a_lane) {
  EXPECT_EQ(three_lanes().draw(8),
            "a |aaaa..dd|\n"
            "b |..bbbbb.|\n"
            "c |...g....|\n"
            "   0 .. 8 us\n");
}

TEST(Timeline, draws_short_spans_and_nameless_ones) {
  Timeline const odd({{"", "lane", 0, 0}, {"end", "x", 10'000, 10'000}});
  EXPECT_EQ(odd.draw(4),
            "lane |#...|\n"
            "x    |...e|\n"
            "      0 .. 10 us\n");
  EXPECT_EQ(odd.draw(1),
            "lane |#|\n"
            "x    |e|\n"
            "      0 .. 10 us\n");
  EXPECT_EQ(Timeline({}).draw(8), "  0 .. 0 us\n");
}

TEST(Timeline, draws_what_began_before_the_recording_from_its_start) {
  // A stream may already run work while the stream that sets time zero is still blocked, so a span
  // may begin at a negative time.
  Timeline const early({{"early", "a", -4000, 2000}, {"late", "b", 2000, 4000}});
  EXPECT_EQ(early.draw(4),
            "a |ee..|\n"
            "b |..ll|\n"
            "   0 .. 4 us\n");
}

TEST(Timeline, needs_a_column_to_draw_in) {
  EXPECT_THROW((void)three_lanes().draw(0), std::invalid_argument);
}

TEST(Timeline, writes_a_trace_that_viewers_open) {
  std::string const json = three_lanes().trace_json();
  EXPECT_EQ(json_fault(json), "");
  EXPECT_THAT(json,
              HasSubstr(R"({"ph": "X", "pid": 1, "tid": 1, "name": "beta", "ts": 2, "dur": 5})"));
  EXPECT_THAT(
      json,
      HasSubstr(
          R"({"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "c"}})"));
  EXPECT_EQ(json_fault(Timeline({}).trace_json()), "");
}

TEST(Timeline, escapes_names_in_its_trace) {
  Timeline const nasty({{"a\"b\\c\nd\te", "lane \"0\"", 0, 1}, {"", "", 1e300, 2e300}});
  std::string const json = nasty.trace_json();
  EXPECT_EQ(json_fault(json), "") << json;
  EXPECT_THAT(json, HasSubstr(R"(a\"b\\c\u000ad\u0009e)"));
  EXPECT_THAT(json, Not(HasSubstr("\t")));
}

TEST(JsonCheck, finds_what_is_not_json) {
  for (auto const* good : {"{}", "[1, -2.5e+3, \"a\\\"\", true, null]", "{\"a\":{\"b\":[]}}\n"}) {
    EXPECT_EQ(json_fault(good), "") << good;
  }
  for (auto const* bad :
       {"", "{", "[1,]", "{\"a\"}", "{a:1}", "[1 2]", "\"\\x\"", "[nan]", "{} {}"}) {
    EXPECT_NE(json_fault(bad), "") << bad;
  }
}

}  // namespace
}  // namespace msstream::trace
