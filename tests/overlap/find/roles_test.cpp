// SPDX-License-Identifier: Apache-2.0
// Tests what is said of streams with work that does not need each other, each program against its
// fixed twin.
#include "overlap/cases/case.hpp"
#include "overlap/cases/trace_builder.hpp"
#include "overlap/find/find.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace msstream::overlap::cases {
namespace {

/// Uploads, kernels that wait for them and downloads that wait for the kernels; the downloads in
/// the stream of the uploads, or in one of their own.
Recording round_trips(bool fixed, Ns kernel_time) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const up = program.stream();
  auto const down = fixed ? program.stream() : up;
  for (int i = 0; i < 20; ++i) {
    auto const uploaded = program.event();
    auto const computed = program.event();
    program.thread()
        .copy(up, CopyDirection::h2d, 4'000'000)
        .record(uploaded, up)
        .wait(compute, uploaded)
        .launch(compute, {.name = "step", .duration = kernel_time, .blocks = 100})
        .record(computed, compute)
        .wait(down, computed)
        .copy(down, CopyDirection::d2h, 4'000'000);
  }
  return program.run();
}

TEST(RolesTest, a_stream_for_uploads_and_downloads_has_two_roles) {
  for (Ns const kernel_time : {40 * us, 85 * us, 200 * us}) {
    auto const report = find(round_trips(false, kernel_time));
    ASSERT_EQ(report.findings.size(), 1U);
    auto const& finding = report.findings.front();
    EXPECT_EQ(finding.cause, Cause::one_stream_two_roles);
    ASSERT_TRUE(finding.prediction);
    auto const fixed = find(round_trips(true, kernel_time));
    EXPECT_TRUE(fixed.findings.empty());
    auto const true_time = static_cast<double>(fixed.window.length());
    EXPECT_NEAR(static_cast<double>(finding.prediction->after), true_time, 0.05 * true_time);
    // The evidence names the work in the shared stream, not the kernel that waits for it.
    auto const held = finding.evidence.front().activity;
    EXPECT_EQ(round_trips(false, kernel_time).activities[held].kind, ActivityKind::copy);
  }
}

TEST(RolesTest, uploads_behind_downloads_could_run_beside_the_kernels_before_both) {
  auto const frames = case_named("frames_in_one_stream");
  auto const report = find(frames.build(false).front());
  ASSERT_EQ(report.findings.size(), 1U);
  auto const& finding = report.findings.front();
  EXPECT_EQ(finding.cause, Cause::one_stream_two_roles);
  ASSERT_TRUE(finding.prediction);
  auto const fixed = find(frames.build(true).front());
  EXPECT_TRUE(fixed.findings.empty());
  auto const true_time = static_cast<double>(fixed.window.length());
  EXPECT_NEAR(static_cast<double>(finding.prediction->after), true_time, 0.05 * true_time);
}

/// A kernel that prepares each upload, in the stream of the copies: what waits for it needs both.
TEST(RolesTest, a_kernel_needs_the_upload_before_it) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const copies = program.stream();
  for (int i = 0; i < 20; ++i) {
    auto const uploaded = program.event();
    auto const computed = program.event();
    program.thread()
        .copy(copies, CopyDirection::h2d, 4'000'000)
        .launch(copies, {.name = "normalize", .duration = 30 * us, .blocks = 40})
        .record(uploaded, copies)
        .wait(compute, uploaded);
    for (int k = 0; k < 3; ++k) {
      program.thread().launch(
          compute, {.name = "op" + std::to_string(k), .duration = 50 * us, .blocks = 60});
    }
    program.thread()
        .record(computed, compute)
        .wait(copies, computed)
        .copy(copies, CopyDirection::d2h, 4'000'000);
  }
  auto const report = find(program.run());
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::one_stream_two_roles);
  for (auto const& finding : report.findings) {
    EXPECT_NE(finding.cause, Cause::false_dependency);
  }
}

/// Uploads before the kernels of each step in one stream, all issued at once.
TEST(RolesTest, a_window_does_not_change_what_a_stream_of_its_own_gains) {
  TraceBuilder program;
  auto const stream = program.stream();
  for (int i = 0; i < 30; ++i) {
    program.thread().copy(stream, CopyDirection::h2d, 8'000'000);
    for (int k = 0; k < 4; ++k) {
      program.thread().launch(
          stream, {.name = "op" + std::to_string(k), .duration = (38 + i % 5) * us, .blocks = 120});
    }
  }
  auto const recording = program.run();
  auto const end = recording.extent()->end;
  for (Ns const begin : {300 * us, 1'000 * us, 2'000 * us, 3'000 * us}) {
    auto const report = find(recording, {.window = Interval{begin, end}});
    ASSERT_EQ(report.findings.size(), 1U) << begin;
    auto const& finding = report.findings.front();
    EXPECT_EQ(finding.cause, Cause::one_stream_two_roles);
    ASSERT_TRUE(finding.prediction);
    auto const gain = static_cast<double>(finding.prediction->before) /
                      static_cast<double>(finding.prediction->after);
    EXPECT_NEAR(gain, 1.9, 0.1) << begin;
  }
}

/// Two threads that each launch some kernels, wait for them and go on: in one stream, or in two.
Recording two_servers(bool fixed, bool waits_by_event) {
  TraceBuilder program;
  auto const first = program.stream();
  auto const second = fixed ? program.stream() : first;
  auto const serve = [&](HostThread& thread, StreamNumber stream, std::string const& name) {
    for (int batch = 0; batch < 12; ++batch) {
      for (int k = 0; k < 5; ++k) {
        thread.launch(stream,
                      {.name = name + std::to_string(k), .duration = 60 * us, .blocks = 20});
      }
      if (waits_by_event) {
        auto const done = program.event();
        thread.record(done, stream).sync_event(done);
      } else {
        thread.sync_stream(stream);
      }
      thread.busy(15 * us);
    }
  };
  serve(program.thread(), first, "a");
  program.second_thread().busy(40 * us);
  serve(program.second_thread(), second, "b");
  return program.run();
}

TEST(RolesTest, threads_that_wait_for_themselves_need_a_stream_each) {
  for (bool const by_event : {false, true}) {
    auto const report = find(two_servers(false, by_event));
    ASSERT_EQ(report.findings.size(), 1U);
    auto const& finding = report.findings.front();
    EXPECT_EQ(finding.cause, Cause::one_stream_two_roles);
    EXPECT_GE(finding.lost, report.window.length() * 4 / 5);
    ASSERT_TRUE(finding.prediction);
    auto const fixed = find(two_servers(true, by_event));
    EXPECT_TRUE(fixed.findings.empty());
    auto const true_time = static_cast<double>(fixed.window.length());
    EXPECT_NEAR(static_cast<double>(finding.prediction->after), true_time, 0.05 * true_time);
  }
}

/// One thread launches and hands over to another one, which launches more and waits for all of it,
/// while the first one makes no calls.
TEST(RolesTest, threads_that_hand_work_over_share_a_stream) {
  TraceBuilder program;
  auto const stream = program.stream();
  auto const launch = [&](HostThread& thread, std::string const& name) {
    for (int k = 0; k < 5; ++k) {
      thread.launch(stream, {.name = name, .duration = 60 * us, .blocks = 20});
    }
  };
  program.second_thread().busy(30 * us);
  for (int step = 0; step < 12; ++step) {
    launch(program.thread(), "forward");
    program.thread().busy(720 * us);
    launch(program.second_thread(), "backward");
    program.second_thread().sync_stream(stream).busy(165 * us);
  }
  auto const report = find(program.run());
  EXPECT_FALSE(std::ranges::any_of(report.findings, [](Finding const& finding) {
    return finding.cause == Cause::one_stream_two_roles;
  }));
}

/// Two streams of short kernels which were issued early: while one goes from one kernel to the
/// next, the other runs.
TEST(RolesTest, a_step_between_two_kernels_beside_another_stream_is_not_lost) {
  TraceBuilder program;
  std::vector<StreamNumber> const streams{program.stream(), program.stream()};
  for (int i = 0; i < 300; ++i) {
    for (auto const stream : streams) {
      program.thread().launch(
          stream, {.name = "short", .duration = (7 + i % 5) * us, .blocks = 30}, 3 * us);
    }
  }
  auto const report = find(program.run());
  EXPECT_TRUE(report.findings.empty()) << report.findings.front().summary;
  for (auto const& time : report.devices.at(0).times) {
    EXPECT_NE(time.cause, Cause::unknown) << time.time;
  }
}

}  // namespace
}  // namespace msstream::overlap::cases
