// SPDX-License-Identifier: Apache-2.0
// Tests what of a recording is replayed, and how predictions follow from it.
#include "overlap/find/find.hpp"
#include "overlap/find/hand_made.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace msstream::overlap {
namespace {

Report replayed_report(HandMade& program, FindOptions const& options = {}) {
  program.recording.sort();
  return find(program.recording, options);
}

Finding const* replayed_finding(Report const& report, Cause cause) {
  auto const found = std::ranges::find(report.findings, cause, &Finding::cause);
  return found == report.findings.end() ? nullptr : &*found;
}

/// Appends short kernels, each right after its launch, and returns the time after the last one.
double add_short_kernels(HandMade& program, double at, int count) {
  for (int i = 0; i < count; ++i, at += 7) {
    program.kernel(0, at, at + 6, at + 8);
  }
  return at;
}

/// Appends kernels that were launched far ahead, and returns the end of the last one.
double add_long_kernels(HandMade& program, double at, int count) {
  for (int i = 0; i < count; ++i) {
    program.kernel(0, at + 2.5 * i, at + 10 + 300.0 * i, at + 10 + 300.0 * (i + 1));
  }
  return at + 10 + 300.0 * count;
}

/// A quarter of the time is 101,000 short kernels, and the rest is busy: the gain is what the
/// device idled.
TEST(ReplayedTest, all_of_a_long_recording_is_replayed) {
  HandMade program(1);
  add_long_kernels(program, add_short_kernels(program, 0, 101'000), 7'000);
  auto const report = replayed_report(program);
  auto const* const finding = replayed_finding(report, Cause::launch_bound);
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  auto const gain = static_cast<double>(finding->prediction->before - finding->prediction->after);
  EXPECT_NEAR(gain, static_cast<double>(finding->lost), 0.2 * static_cast<double>(finding->lost));
  EXPECT_LE(report.replay->error(), 0.01);
}

/// Appends a step of 50 short kernels of 7 us each, for the last of which the host waits before it
/// does something else for 1,000 us; returns the end of the step.
double add_step_with_pause(HandMade& program, double at) {
  auto const end = add_short_kernels(program, at, 50);
  program.call(CallKind::synchronize, end, end + 5, "cudaStreamSynchronize");
  return end + 1'005;
}

/// A window of one step has idle time at its end, which the next step's first kernel ends.
TEST(ReplayedTest, idle_time_at_the_end_of_a_window_is_replayed) {
  HandMade program(1);
  std::vector<Interval> steps;
  double at = 0;
  for (int i = 0; i < 4; ++i) {
    auto const end = add_step_with_pause(program, at);
    steps.push_back({static_cast<Ns>(at * 1'000), static_cast<Ns>(end * 1'000)});
    at = end;
  }
  auto const report = replayed_report(program, {.window = steps[1]});
  EXPECT_LE(report.replay->error(), 0.01);
  auto const* const pause = replayed_finding(report, Cause::host_busy);
  auto const* const launches = replayed_finding(report, Cause::launch_bound);
  ASSERT_TRUE(pause && pause->prediction && launches && launches->prediction);
  EXPECT_NEAR(pause->prediction->before - pause->prediction->after, 1'000'000, 50'000);
  EXPECT_NEAR(launches->prediction->before - launches->prediction->after, 250'000, 50'000);
}

/// A kernel runs when the window begins, and the host waits for it before it launches others.
TEST(ReplayedTest, work_that_runs_when_a_window_begins_is_replayed) {
  HandMade program(1);
  program.kernel(0, 0, 5, 3'000);
  program.call(CallKind::synchronize, 3, 3'005, "cudaStreamSynchronize");
  add_short_kernels(program, 3'010, 100);
  auto const report = replayed_report(program, {.window = Interval{2'000'000, 3'700'000}});
  ASSERT_TRUE(report.replay);
  EXPECT_LE(report.replay->error(), 0.01);
  auto const* const wait = replayed_finding(report, Cause::host_synchronization);
  ASSERT_TRUE(wait && wait->prediction);
  // The kernel takes another 1,000 us, in which the others are launched: each begins 4 us after the
  // one before it, and takes 2 us or a part of it until the window ends.
  EXPECT_GE(wait->prediction->after, 1'400'000);
  EXPECT_LE(wait->prediction->after, 1'600'000);
}

/// Kernels that leave room for each other, and take twice as long at once as alone, since they
/// share the memory's bandwidth: those that run alone would gain nothing beside each other.
TEST(ReplayedTest, kernels_that_slow_each_other_down_do_so_in_the_replay) {
  HandMade program(2);
  auto& recording = program.recording;
  auto const names = std::vector{recording.names.id_of("triad"), recording.names.id_of("copy")};
  auto const run = [&](Index stream, double issued, double begin, double end) {
    recording.activities[program.kernel(stream, issued, begin, end)].name = names[stream];
  };
  double at = 0;
  for (int i = 0; i < 12; ++i, at += 420) {
    run(static_cast<Index>(i % 2), at, at + 6, at + 406);
    program.call(CallKind::synchronize, at + 3, at + 410, "cudaStreamSynchronize");
  }
  for (int i = 0; i < 12; ++i) {
    for (Index stream = 0; stream < 2; ++stream) {
      run(stream, at + 5 * (2 * i + stream), at + 10 + 790 * i, at + 10 + 790 * (i + 1));
    }
  }
  auto const report = replayed_report(program);
  ASSERT_TRUE(report.replay);
  EXPECT_LE(report.replay->error(), 0.05);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::bandwidth_shared);
  auto const* const waits = replayed_finding(report, Cause::host_synchronization);
  EXPECT_TRUE(waits == nullptr ||
              waits->prediction->before - waits->prediction->after < report.window.length() / 20);
}

/// A launch whose blocks all run at once and leave no room: one on each multiprocessor.
Index add_full_shape(HandMade& program) {
  program.recording.shapes.push_back({.grid = {132, 1, 1},
                                      .block = {384, 1, 1},
                                      .registers_per_thread = 168,
                                      .shared_bytes = 230'000});
  return static_cast<Index>(program.recording.shapes.size() - 1);
}

/// Kernels of two streams in turn. Each fills the device, takes 400 us alone, and begins 100 us
/// before the other one's end, when the first blocks of that one have ended: none ran alone.
TEST(ReplayedTest, kernels_that_begin_beside_the_last_blocks_of_others_take_no_longer) {
  HandMade program(2);
  auto& recording = program.recording;
  auto const shape = add_full_shape(program);
  for (int i = 0; i < 20; ++i) {
    auto const kernel = program.kernel(static_cast<Index>(i % 2),
                                       5 * i,
                                       400 * i - (i == 0 ? -110 : 0),
                                       400 * (i + 1) + 100,
                                       shape);
    recording.activities[kernel].name = recording.names.id_of("product");
  }
  auto const report = replayed_report(program);
  ASSERT_TRUE(report.replay);
  EXPECT_LE(report.replay->error(), 0.02);
  auto const* const full = replayed_finding(report, Cause::multiprocessors_full);
  ASSERT_TRUE(full && full->prediction);
  EXPECT_EQ(full->prediction->after, full->prediction->before);
}

/// A stream of low priority has kernels that fill the device and take 2,000 us. Each waits for the
/// urgent kernel of 1,500 us of the step before. Urgent kernels begin 0.6 us before a wide one's
/// end. From the fourth step on, some come first: then all but the last blocks of the wide kernel
/// run beside them, and the last ones begin at the urgent one's end, so that it takes 3,500 us.
TEST(ReplayedTest, last_blocks_that_waited_for_urgent_work_need_not_wait_after_the_fix) {
  HandMade program(2);
  auto& recording = program.recording;
  recording.streams[0].priority = 0;
  recording.streams[1].priority = -5;
  auto const first_shape = static_cast<Index>(recording.shapes.size());
  for (int const blocks : {264, 16}) {
    recording.shapes.push_back(
        {.grid = {blocks, 1, 1}, .block = {1024, 1, 1}, .registers_per_thread = 16});
  }
  struct Step {
    double wide_begin, wide_end, urgent_begin, urgent_end;
  };
  std::vector<Step> const steps{{100, 2'101, 2'100.4, 3'601},
                                {3'602, 5'603, 5'602.4, 7'103},
                                {7'104, 9'105, 9'104.4, 10'605},
                                {10'606.6, 14'107, 10'606, 12'106},
                                {14'108, 16'109, 12'607, 14'107.4},
                                {16'111, 19'611, 16'108.6, 17'609},
                                {19'612, 21'613, 18'111, 19'611.4},
                                {21'615, 25'114, 21'612.6, 23'113}};
  double issued = 0;
  for (auto const& step : steps) {
    auto const wide = program.kernel(0, issued, step.wide_begin, step.wide_end, first_shape);
    recording.activities[wide].name = recording.names.id_of("wide");
    auto const urgent =
        program.kernel(1, issued + 3, step.urgent_begin, step.urgent_end, first_shape + 1);
    recording.activities[urgent].name = recording.names.id_of("urgent");
    program.wait(0, 1, issued + 6, issued + 7);
    issued += 10;
  }
  auto const report = replayed_report(program);
  ASSERT_TRUE(report.replay);
  EXPECT_LE(report.replay->error(), 0.02);
  auto const* const finding = replayed_finding(report, Cause::priority_cannot_help);
  ASSERT_TRUE(finding && finding->prediction);
  // The wide kernels follow each other, an eighth slower beside urgent ones.
  EXPECT_GT(finding->prediction->after, 16'000'000);
  EXPECT_LT(finding->prediction->after, 18'000'000);
}

}  // namespace
}  // namespace msstream::overlap
