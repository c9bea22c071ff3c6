// SPDX-License-Identifier: Apache-2.0
// Tests what reports say and promise where a recording lacks waits, types of streams or events.
#include "overlap/find/find.hpp"
#include "overlap/find/findings.hpp"
#include "overlap/find/hand_made.hpp"
#include "overlap/find/words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// Two streams take turns, and the host pauses between. With only the calls of launches, nobody can
/// tell that streams did not wait.
TEST(MissingTest, a_recording_of_launches_alone_does_not_tell_that_there_were_no_waits) {
  for (bool const has_others : {false, true}) {
    HandMade program;
    program.recording.has_syncs = false;
    if (has_others) {
      program.call(CallKind::record_event, 0, 1);
    }
    for (int i = 0; i < 20; ++i) {
      double const start = 600.0 * i + 2;
      program.kernel(0, start, start + 10, start + 200);
      program.kernel(1, start + 5, start + 202, start + 400);
    }
    program.recording.sort();
    auto const report = find(program.recording);
    auto const finding = std::ranges::find(report.findings, Cause::host_busy, &Finding::cause);
    ASSERT_NE(finding, report.findings.end());
    ASSERT_TRUE(finding->prediction);
    auto const gain = finding->prediction->before - finding->prediction->after;
    EXPECT_EQ(gain <= finding->lost, !has_others);
    EXPECT_EQ(finding->prediction->range.has_value(), !has_others);
  }
}

/// Streams that may be the legacy one and a blocking one, and no call of a wait.
TEST(MissingTest, types_are_named_where_no_stream_was_made_to_wait) {
  for (bool const calls_waits : {false, true}) {
    HandMade program;
    program.recording.has_syncs = false;
    for (auto& stream : program.recording.streams) {
      stream.type = StreamType::unknown;
    }
    if (calls_waits) {
      program.call(CallKind::wait_event, -400, -399);
    }
    for (int i = 0; i < 20; ++i) {
      program.kernel(static_cast<Index>(i % 2), 10.0 * i - 300, 201.0 * i, 201.0 * i + 200);
    }
    program.recording.sort();
    auto const report = find(program.recording);
    EXPECT_THAT(report.notes,
                Contains(HasSubstr(calls_waits ? "Record waits of streams"
                                               : "Record the types of the streams")));
  }
}

/// The legacy stream has the lowest number of its context: others wait for each other only by
/// waits, queues or for room, whatever their types.
TEST(MissingTest, types_of_two_streams_that_are_not_the_legacy_one_explain_nothing) {
  HandMade program(3);
  for (auto& stream : program.recording.streams) {
    stream.type = StreamType::unknown;
  }
  program.kernel(0, -600, -500, -400);
  for (int i = 0; i < 20; ++i) {
    program.kernel(static_cast<Index>(1 + i % 2), 10.0 * i - 300, 201.0 * i, 201.0 * i + 200);
  }
  program.recording.sort();
  auto const report = find(program.recording);
  EXPECT_THAT(report.notes, Contains(HasSubstr("Record the hardware queue of each kernel")));
  EXPECT_THAT(report.notes, ::testing::Not(Contains(HasSubstr("types of the streams"))));
}

/// Uploads, kernels and downloads in three streams, which wait for each other by waits that nobody
/// recorded: by their kinds, the work needs that. An upload that waits for a kernel may not.
TEST(MissingTest, unrecorded_waits_between_copies_and_kernels_are_needed) {
  for (bool const upload_waits : {false, true}) {
    HandMade program(3);
    program.recording.has_syncs = false;
    for (int i = 0; i < 12; ++i) {
      double const at = (upload_waits ? 406.0 : 302.0) * i;
      double const call = 30.0 * i;
      if (upload_waits) {
        program.call(CallKind::wait_event, call - 2, call - 1);
      }
      program.copy(1, CopyDirection::h2d, call, at + 10, at + 310);
      program.call(CallKind::wait_event, call + 4, call + 5);
      program.kernel(0, call + 6, at + 312, at + 412);
      program.call(CallKind::wait_event, call + 10, call + 11);
      program.copy(2, CopyDirection::d2h, call + 12, at + 414, at + 464);
    }
    program.recording.sort();
    auto const report = find(program.recording);
    auto const is_unknown = [](Finding const& finding) { return finding.cause == Cause::unknown; };
    EXPECT_EQ(std::ranges::any_of(report.findings, is_unknown), upload_waits);
  }
}

/// Time that a recording does not explain is no finding where one stream works all the time, since
/// more overlap would gain nothing there.
TEST(MissingTest, what_nothing_can_gain_is_not_unknown) {
  for (Ns const own : {240, 40}) {
    HandMade program;
    program.recording.has_syncs = false;
    for (int i = 0; i < 12; ++i) {
      double const at = 250.0 * i;
      double const begin = at + 240 - static_cast<double>(own);
      program.kernel(0, 5.0 * i - 100, begin, at + 240);
      program.call(CallKind::wait_event, 5.0 * i - 97, 5.0 * i - 96);
      program.kernel(1, 5.0 * i - 95, at + 242, at + 249);
    }
    program.recording.sort();
    auto const report = find(program.recording);
    auto const is_unknown = [](Finding const& finding) { return finding.cause == Cause::unknown; };
    EXPECT_EQ(std::ranges::any_of(report.findings, is_unknown), own == 40) << own;
  }
}

TEST(MissingTest, one_stream_waits_for_no_other) {
  HandMade program(1);
  program.recording.has_syncs = false;
  for (int i = 0; i < 20; ++i) {
    program.kernel(0, 10.0 * i - 300, 201.0 * i, 201.0 * i + 100);
  }
  program.recording.sort();
  EXPECT_THAT(find(program.recording).notes,
              Contains(HasSubstr("Nothing that was recorded explains it")));
}

TEST(MissingTest, an_export_with_events_but_without_their_numbers_is_too_old) {
  Recording recording;
  recording.source = "Nsight Systems 2024.5";
  EXPECT_THAT(record_text(Missing::waits, recording), HasSubstr("--cuda-event-trace=true"));
  recording.lacks_event_numbers = true;
  EXPECT_THAT(record_text(Missing::waits, recording), HasSubstr("a later version"));
}

TEST(MissingTest, findings_that_gain_nothing_come_after_those_that_do) {
  std::vector<Finding> findings(3);
  findings[0].cause = Cause::true_dependency;
  findings[0].lost = 90;
  findings[1].cause = Cause::host_busy;
  findings[1].lost = 50;
  findings[1].prediction = Prediction{1'000, 1'000};
  findings[2].cause = Cause::pageable_copy;
  findings[2].lost = 20;
  findings[2].prediction = Prediction{1'000, 980};
  sort_findings(findings);
  EXPECT_EQ(findings[0].cause, Cause::pageable_copy);
  EXPECT_EQ(findings[1].cause, Cause::host_busy);
  EXPECT_EQ(findings[2].cause, Cause::true_dependency);
}

/// Of losses that are nearly equal, those come first whose fix is predicted to gain something. If
/// nothing is predicted, as the replay is not trusted, the order is that of the losses.
TEST(MissingTest, findings_without_a_prediction_win_no_tie) {
  std::vector<Finding> findings(3);
  findings[0].cause = Cause::unknown;
  findings[0].lost = 110;
  findings[1].cause = Cause::legacy_stream;
  findings[1].lost = 100;
  findings[1].prediction = Prediction{1'000, 990};
  findings[2].cause = Cause::pageable_copy;
  findings[2].lost = 95;
  findings[2].prediction = Prediction{1'000, 900};
  sort_findings(findings);
  EXPECT_EQ(findings[0].cause, Cause::pageable_copy);
  EXPECT_EQ(findings[1].cause, Cause::legacy_stream);
  EXPECT_EQ(findings[2].cause, Cause::unknown);
  for (auto& finding : findings) {
    finding.prediction.reset();
  }
  sort_findings(findings);
  EXPECT_EQ(findings[0].cause, Cause::unknown);
}

/// Two processes use one device, and each idles while the other one works, or at other times.
TEST(MissingTest, turns_of_processes_on_one_device_are_named) {
  for (bool const in_turn : {true, false}) {
    std::vector<Recording> ranks;
    for (int process = 0; process < 2; ++process) {
      HandMade program(1);
      for (int i = 0; i < 20; ++i) {
        double const at = 200.0 * i + (in_turn ? 100 : 10) * process;
        program.kernel(0, 5.0 * i - 500, at, at + 99);
      }
      program.recording.sort();
      ranks.push_back(std::move(program.recording));
    }
    for (auto const& report : find(ranks)) {
      ASSERT_FALSE(report.findings.empty());
      bool const is_named = report.findings.front().advice.find("MPS") != std::string::npos;
      EXPECT_EQ(is_named, in_turn);
    }
  }
}

}  // namespace
}  // namespace msstream::overlap
