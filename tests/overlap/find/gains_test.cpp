// SPDX-License-Identifier: Apache-2.0
// Tests which findings have something to gain, and the notes on time that nothing explains.
#include "overlap/find/find.hpp"
#include "overlap/find/hand_made.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Report gains_report(HandMade& program) {
  program.recording.sort();
  return find(program.recording);
}

Finding const* gains_finding(Report const& report, Cause cause) {
  auto const found = std::ranges::find(report.findings, cause, &Finding::cause);
  return found == report.findings.end() ? nullptr : &*found;
}

Ns gains_time(Report const& report, TimeClass kind, Cause cause) {
  for (auto const& time : report.devices.at(0).times) {
    if (time.kind == kind && time.cause == cause) {
      return time.time;
    }
  }
  return 0;
}

/// The host launches a kernel of 200 us ahead, waits, and uploads for 5 us beside the running one.
TEST(GainsTest, what_cannot_be_gained_is_not_lost) {
  HandMade program;
  program.kernel(0, -20, 0, 200);
  for (int i = 0; i < 10; ++i) {
    double const start = 200.0 * i;
    program.kernel(0, start + 2, start + 200, start + 400);
    program.call(CallKind::synchronize, start + 5, start + 150);
    program.copy(1, CopyDirection::h2d, start + 152, start + 160, start + 165);
  }
  auto const report = gains_report(program);
  EXPECT_TRUE(report.findings.empty()) << report.findings.front().summary;
  EXPECT_EQ(gains_time(report, TimeClass::lost, Cause::host_synchronization), 0);
  EXPECT_THAT(report.notes, Contains(HasSubstr("(host-synchronization), but has nothing to gain")));
}

/// Launches on an idle device: the time until it fetches them is gone in a graph.
TEST(GainsTest, nodes_of_a_graph_do_not_wait_to_be_fetched) {
  HandMade program(1);
  for (int i = 0; i < 100; ++i) {
    double const start = 20.0 * i;
    program.kernel(0, start, start + 12, start + 17);
  }
  auto const report = gains_report(program);
  auto const* const finding = gains_finding(report, Cause::launch_bound);
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  // In 20 us, a kernel works for 5, and the next node of a graph would begin about 1 us later.
  EXPECT_LT(3 * finding->prediction->after, finding->prediction->before);
}

/// Kernels of 2 us that were launched early, with `step` us from one to the next.
TEST(GainsTest, steps_between_short_kernels_are_a_cause) {
  for (double const step : {1.5, 0.1}) {
    for (bool const in_graph : {false, true}) {
      HandMade program(1);
      for (int i = 0; i < 100; ++i) {
        auto const kernel = program.kernel(0, 1.0 * i - 300, (2 + step) * i, (2 + step) * i + 2);
        program.recording.activities[kernel].graph = in_graph ? 3 : kUnknown;
      }
      auto const report = gains_report(program);
      auto const* const finding = gains_finding(report, Cause::short_kernels);
      ASSERT_EQ(finding != nullptr, step > 1 && !in_graph);
      if (finding != nullptr) {
        EXPECT_EQ(report.findings.size(), 1U);
        ASSERT_TRUE(finding->prediction && finding->prediction->range);
        EXPECT_NEAR(finding->prediction->after, 270'000, 10'000);
        EXPECT_NEAR(finding->prediction->range->least, 200'000, 10'000);
      }
    }
  }
}

/// Copies of three streams at once, which a replay runs one after the other, and pageable ones that
/// wait for nothing.
TEST(GainsTest, a_replay_that_is_far_off_makes_nothing_harmless) {
  HandMade program(4);
  for (int i = 0; i < 10; ++i) {
    double const start = 1'000.0 * i;
    for (Index stream = 0; stream < 3; ++stream) {
      program.copy(stream, CopyDirection::h2d, start + 3 * stream, start + 20, start + 520);
    }
    auto const pageable = program.copy(3, CopyDirection::d2h, start + 30, start + 530, start + 990);
    program.recording.activities[pageable].target = MemoryKind::pageable;
  }
  auto const report = gains_report(program);
  ASSERT_TRUE(report.replay);
  EXPECT_FALSE(report.replay->is_trusted());
  auto const* const finding = gains_finding(report, Cause::pageable_copy);
  ASSERT_NE(finding, nullptr);
  EXPECT_GE(finding->lost, 4'000'000);
  EXPECT_FALSE(finding->prediction);
  EXPECT_THAT(report.notes, Not(Contains(HasSubstr("nothing to gain"))));
}

TEST(GainsTest, launches_have_their_latency_beside_other_work_too) {
  HandMade program;
  for (int i = 0; i < 10; ++i) {
    double const start = 20.0 * i;
    program.kernel(0, start - 15, start, start + 10);
    program.kernel(1, start + 3, start + 11, start + 19);
  }
  auto const report = gains_report(program);
  EXPECT_EQ(gains_time(report, TimeClass::lost, Cause::unknown), 0);
  EXPECT_GT(gains_time(report, TimeClass::lost, Cause::launch_bound), 0);
}

/// Two launches of one executable graph, in two streams.
TEST(GainsTest, a_graph_does_not_run_beside_itself) {
  for (bool const one_graph : {true, false}) {
    HandMade program;
    for (int i = 0; i < 10; ++i) {
      auto const made =
          program.kernel(static_cast<Index>(i % 2), 10.0 * i, 200.0 + 201 * i, 400.0 + 201 * i);
      program.recording.activities[made].graph = one_graph ? 3 : 3 + i % 2;
    }
    auto const report = gains_report(program);
    EXPECT_EQ(report.findings.empty(), one_graph);
  }
}

TEST(GainsTest, what_a_stream_waited_for_is_named) {
  struct Named {
    CallKind kind;
    std::string_view note;
  };
  for (auto const& [kind, note] :
       {Named{CallKind::host_function, "A function of the host was in the stream"},
        Named{CallKind::wait_value, "waited until memory had a value"},
        Named{CallKind::other, "Nothing that was recorded explains it"}}) {
    HandMade program(1);
    for (int i = 0; i < 10; ++i) {
      double const start = 600.0 * i;
      program.kernel(0, 20.0 * i - 300, start, start + 100);
      program.call(kind, 20.0 * i - 295, 20.0 * i - 293);
      program.kernel(0, 20.0 * i - 290, start + 500, start + 599);
    }
    auto const report = gains_report(program);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings.front().cause, Cause::unknown);
    EXPECT_THAT(report.notes, Contains(HasSubstr(std::string(note))));
  }
}

TEST(GainsTest, contexts_that_take_turns_are_named) {
  for (std::int64_t const context : {1, 2}) {
    HandMade program;
    program.recording.streams[1].context = context;
    for (int i = 0; i < 20; ++i) {
      program.kernel(static_cast<Index>(i % 2), 10.0 * i - 300, 201.0 * i, 201.0 * i + 200);
    }
    auto const report = gains_report(program);
    ASSERT_FALSE(report.findings.empty());
    bool const is_named = std::ranges::any_of(report.notes, [](std::string const& text) {
      return text.find("belong to different contexts") != std::string::npos;
    });
    EXPECT_EQ(is_named, context == 2);
  }
}

TEST(GainsTest, missing_types_of_streams_are_named) {
  for (bool const has_types : {false, true}) {
    HandMade program;
    for (auto& stream : program.recording.streams) {
      stream.type = has_types ? StreamType::non_blocking : StreamType::unknown;
    }
    for (int i = 0; i < 20; ++i) {
      program.kernel(static_cast<Index>(i % 2), 10.0 * i - 300, 201.0 * i, 201.0 * i + 200);
    }
    auto const report = gains_report(program);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings.front().cause, Cause::unknown);
    bool const is_named =
        report.findings.front().advice.find("Record the types of the streams") != std::string::npos;
    EXPECT_EQ(is_named, !has_types);
  }
}

/// The tool's own records of what it took do not tell how much slower each launch was. The window
/// begins behind the first one.
TEST(GainsTest, recorded_launches_are_counted_in_a_note) {
  for (bool const recorded : {false, true}) {
    HandMade program(1);
    for (int i = 0; i < 7; ++i) {
      program.kernel(0, 20.0 * i, 20.0 * i + 5, 20.0 * i + 8);
    }
    if (recorded) {
      program.recording.overheads.push_back(
          {.time = {30'000, 31'000}, .kind = OverheadKind::recording, .thread = 0, .name = 0});
    }
    auto const report = gains_report(program);
    bool const is_noted = std::ranges::any_of(report.notes, [](std::string const& text) {
      return text.find("Each of 6 launches took longer") != std::string::npos;
    });
    EXPECT_EQ(is_noted, recorded);
  }
}

TEST(GainsTest, activities_at_once_in_one_stream_have_a_note) {
  for (double const begin : {150.0, 200.0}) {
    HandMade program(1);
    program.kernel(0, 0, 100, 200);
    program.kernel(0, 5, begin, 300);
    auto const report = gains_report(program);
    bool const is_noted = std::ranges::any_of(report.notes, [](std::string const& text) {
      return text.starts_with("1 activity began before the work ahead");
    });
    EXPECT_EQ(is_noted, begin < 200);
  }
}

/// A file that was merged twice has each event twice.
TEST(GainsTest, short_activities_at_once_in_one_stream_have_a_note_without_calls_too) {
  for (bool const is_twice : {true, false}) {
    for (bool const has_calls : {true, false}) {
      HandMade program(1);
      for (int i = 0; i < 20; ++i) {
        double const start = 20.0 * i;
        program.kernel(0, start, start + 5, start + 9);
        if (is_twice) {
          program.kernel(0, start, start + 5, start + 9);
        }
      }
      if (!has_calls) {
        program.recording.calls.clear();
        for (auto& activity : program.recording.activities) {
          activity.call = kNone;
        }
      }
      auto const report = gains_report(program);
      bool const is_noted = std::ranges::any_of(report.notes, [](std::string const& text) {
        return text.starts_with("20 activities began before the work ahead");
      });
      EXPECT_EQ(is_noted, is_twice) << has_calls;
    }
  }
}

TEST(GainsTest, times_near_the_largest_are_explained) {
  HandMade program(1);
  for (auto const end : {1.0, 4e15}) {
    program.kernel(0, 0, end - 1, end);
  }
  auto const report = gains_report(program);
  EXPECT_THAT(report.notes, Contains(HasSubstr("(100%) cannot be explained")));
}

TEST(GainsTest, streams_with_one_number_are_told_apart_by_their_contexts) {
  HandMade program;
  auto& streams = program.recording.streams;
  streams[0].number = streams[1].number = 7;
  streams[1].context = 2;
  for (int i = 0; i < 20; ++i) {
    program.kernel(static_cast<Index>(i % 2), 10.0 * i - 300, 201.0 * i, 201.0 * i + 200);
  }
  auto const report = gains_report(program);
  ASSERT_FALSE(report.findings.empty());
  auto const& text = report.findings.front().evidence.front().text;
  EXPECT_THAT(text, HasSubstr("on stream 7 of context 1"));
  EXPECT_THAT(text, HasSubstr("on stream 7 of context 2"));
}

TEST(GainsTest, the_start_of_a_program_is_noted) {
  for (bool const is_start : {true, false}) {
    HandMade program(1);
    program.kernel(0, 0, 10, 20);
    if (is_start) {
      program.call(CallKind::load_module, 25, 3'000);
    }
    for (int i = 0; i < 30; ++i) {
      program.kernel(0, 3'001 + 100.0 * i, 3'010 + 100.0 * i, 3'100 + 100.0 * i);
    }
    program.recording.sort();
    auto const noted = [](Report const& report) {
      return std::ranges::any_of(report.notes, [](std::string const& text) {
        return text.find("look like the program's start") != std::string::npos;
      });
    };
    EXPECT_EQ(noted(find(program.recording)), is_start);
    EXPECT_FALSE(noted(find(program.recording, {.window = program.recording.extent()})));
  }
}

}  // namespace
}  // namespace msstream::overlap
