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

using ::testing::ElementsAre;
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

TEST(Timeline, has_a_lane_for_each_stream_of_one_name) {
  // Two pools: operations of their groups 0 overlap, and arrows go between them.
  Timeline const pools({{"first", "group 0", 0, 4000, 0, 1},
                        {"second", "group 0", 2000, 6000, 3, 1},
                        {"third", "group 0", 4000, 8000, 0, 2},
                        {"fourth", "group 1", 0, 8000, 1, 1},
                        {"fifth", "group 0", 6000, 8000, 7, 1}},
                       {{3, 1, 0, 2}});
  EXPECT_THAT(pools.lanes(), ElementsAre("group 0", "group 1", "group 0 (2)", "group 0 (3)"));
  EXPECT_THAT(pools.lanes_of_spans(), ElementsAre(0, 2, 0, 1, 3));
  EXPECT_EQ(pools.draw(8),
            "group 0     |fffftttt|\n"
            "group 1     |ffffffff|\n"
            "group 0 (2) |..ssss..|\n"
            "group 0 (3) |......ff|\n"
            "             0 .. 8 us\n");
  auto const json = pools.trace_json();
  for (auto const* const event : {R"("X", "pid": 1, "tid": 1, "name": "first")",
                                  R"("X", "pid": 1, "tid": 3, "name": "second")",
                                  R"("s", "pid": 1, "tid": 3, "name": "wait")",
                                  R"("f", "pid": 1, "tid": 1, "name": "wait")"}) {
    EXPECT_THAT(json, HasSubstr(event));
  }
}

TEST(Timeline, has_lanes_in_the_order_of_streams) {
  Timeline const streams({{"a", "group 10", 0, 1, 30, 1},
                          {"b", "group 2", 0, 1, 6, 1},
                          {"c", "default group", 0, 1, 40, 1},
                          // Two streams that had one index, one after the other.
                          {"d", "group 1", 0, 1, 3, 1},
                          {"e", "other", 1, 2, 3, 2}});
  EXPECT_THAT(streams.lanes(),
              ElementsAre("group 1", "other", "group 2", "group 10", "default group"));
  EXPECT_EQ(streams.draw(1),
            "group 1       |d|\n"
            "other         |e|\n"
            "group 2       |b|\n"
            "group 10      |a|\n"
            "default group |c|\n"
            "               0 .. 0 us\n");
  EXPECT_THAT(streams.trace_json(),
              HasSubstr(R"("tid": 4, "name": "thread_sort_index", "args": {"sort_index": 3}})"));
}

TEST(Timeline, has_lanes_without_a_stream_in_the_order_of_names) {
  Timeline const names({{"a", "group 10", 0, 1},
                        {"b", "group 2", 0, 1},
                        {"c", "group 02", 0, 1},
                        {"d", "group 2 h2d", 0, 1},
                        {"e", "group 2", 1, 2},
                        {"f", "z", 1, 2, 5, 1},
                        {"g", "", 1, 2}});
  EXPECT_THAT(names.lanes(),
              ElementsAre("z", "", "group 02", "group 2", "group 2 h2d", "group 10"));
  EXPECT_THAT(names.lanes_of_spans(), ElementsAre(5, 3, 2, 4, 3, 0, 1));
  EXPECT_THAT(Timeline({}).lanes(), ElementsAre());
}

TEST(Timeline, has_lanes_whose_names_differ) {
  Timeline const numbered({{"a", "sums", 0, 1, 1, 1},
                           {"b", "sums (2)", 0, 1, 2, 1},
                           {"c", "sums", 0, 1, 3, 1},
                           {"d", "sums (2)", 0, 1, 4, 1}});
  EXPECT_THAT(numbered.lanes(), ElementsAre("sums", "sums (2)", "sums (3)", "sums (2) (2)"));
}

TEST(Timeline, needs_a_column_to_draw_in) {
  EXPECT_THROW((void)three_lanes().draw(0), std::invalid_argument);
}

TEST(Timeline, writes_a_trace_that_viewers_open) {
  std::string const json = three_lanes().trace_json();
  EXPECT_EQ(json_fault(json), "");
  EXPECT_THAT(
      json,
      HasSubstr(
          R"({"ph": "X", "pid": 1, "tid": 2, "name": "beta", "ts": 2, "dur": 5, "args": {"launch_us": 0}})"));
  EXPECT_THAT(
      json,
      HasSubstr(
          R"({"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": "c"}})"));
  EXPECT_THAT(json, HasSubstr(R"("name": "process_name", "args": {"name": "msstream"}})"));
  EXPECT_EQ(json_fault(Timeline({}).trace_json()), "");
}

TEST(Timeline, says_of_each_slice_which_operation_it_is) {
  Timeline const timeline({{"dense", "group 0 compute", 0, 4000, 3, 41, 2500}});
  auto const json = timeline.trace_json();
  EXPECT_EQ(json_fault(json), "") << json;
  EXPECT_THAT(json, HasSubstr(R"("args": {"stream": 3, "number": 41, "launch_us": 2.5}})"));
}

TEST(Timeline, traces_of_ranks_can_be_merged) {
  Timeline const timeline({{"x", "a", 0, 4000, 0, 1}, {"y", "b", 5000, 8000, 1, 1}},
                          {{0, 1, 1, 1}});
  auto const first = timeline.trace_json(0);
  auto const third = timeline.trace_json(2);
  EXPECT_EQ(json_fault(third), "") << third;
  EXPECT_THAT(
      first,
      HasSubstr(
          R"("pid": 0, "tid": 1, "name": "process_name", "args": {"name": "msstream rank 0"}})"));
  EXPECT_THAT(third, HasSubstr(R"("name": "process_name", "args": {"name": "msstream rank 2"}})"));
  EXPECT_THAT(third, HasSubstr(R"("name": "process_sort_index", "args": {"sort_index": 2}})"));
  EXPECT_THAT(third, HasSubstr(R"({"ph": "X", "pid": 2, "tid": 2, "name": "y")"));
  EXPECT_THAT(third, HasSubstr(R"("rank": 2}})"));
  // An arrow's ends are found by its id, in all processes.
  EXPECT_THAT(first, HasSubstr(R"("cat": "wait", "id": 0,)"));
  EXPECT_THAT(third, HasSubstr(R"("cat": "wait", "id": 8589934592,)"));
  EXPECT_THROW((void)timeline.trace_json(-1), std::invalid_argument);
}

TEST(Timeline, draws_an_arrow_for_each_wait_between_its_spans) {
  // Stream 0: operations 1 and 2. Stream 5: operation 9, which waits for operation 1 of stream 0,
  // by an event that covers no more.
  Timeline const timeline({{"first", "a", 0, 4000, 0, 1},
                           {"second", "a", 4000, 9000, 0, 2},
                           {"waits", "b", 5000, 8000, 5, 9}},
                          {{0, 1, 5, 9}});
  std::string const json = timeline.trace_json();
  EXPECT_EQ(json_fault(json), "") << json;
  // Inside the slice that is waited for, and at the beginning of the one that waits.
  EXPECT_THAT(
      json,
      HasSubstr(
          R"({"ph": "s", "pid": 1, "tid": 1, "name": "wait", "cat": "wait", "id": 0, "ts": 3.999})"));
  EXPECT_THAT(
      json,
      HasSubstr(
          R"({"ph": "f", "pid": 1, "tid": 2, "name": "wait", "cat": "wait", "id": 0, "ts": 5, "bp": "e"})"));
}

TEST(Timeline, an_arrow_begins_at_the_last_span_that_a_wait_covers) {
  // Positions between the spans are of operations without one, such as a recorded event.
  Timeline const timeline({{"one", "a", 0, 1000, 0, 1},
                           {"four", "a", 1000, 2000, 0, 4},
                           {"ten", "b", 3000, 4000, 1, 10}},
                          {{0, 3, 1, 8}, {0, 6, 1, 10}});
  std::string const json = timeline.trace_json();
  EXPECT_THAT(json, HasSubstr(R"("id": 0, "ts": 0.999})"));
  EXPECT_THAT(json, HasSubstr(R"("id": 1, "ts": 1.999})"));
}

TEST(Timeline, leaves_out_arrows_whose_ends_have_no_spans) {
  Timeline const timeline({{"x", "a", 0, 1000, 0, 5}, {"y", "b", 0, 1000, 1, 5}},
                          {{0, 4, 1, 5},  // before the recording
                           {0, 5, 1, 6},  // for what is launched after it
                           {2, 1, 1, 5},  // of a stream without spans
                           {0, 5, 3, 1}});
  EXPECT_THAT(timeline.trace_json(), Not(HasSubstr("\"wait\"")));
  // Spans without positions are of no stream.
  EXPECT_THAT(Timeline({{"x", "a", 0, 1}, {"y", "b", 1, 2}}, {{0, 1, 0, 1}}).trace_json(),
              Not(HasSubstr("\"wait\"")));
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
