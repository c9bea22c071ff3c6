// SPDX-License-Identifier: Apache-2.0
// Tests what reports say of launches whose blocks must all be on the device at once, and of graphs
// of which a recording does not tell what they take.
#include "overlap/find/find.hpp"
#include "overlap/find/hand_made.hpp"
#include "overlap/recording/occupancy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace msstream::overlap {
namespace {

using ::testing::HasSubstr;

LaunchShape shape_of(int blocks, int threads, int registers, std::int64_t shared_bytes) {
  return {.grid = {blocks, 1, 1},
          .block = {threads, 1, 1},
          .registers_per_thread = registers,
          .shared_bytes = shared_bytes};
}

/// Blocks that have a multiprocessor each.
LaunchShape grid_of(int blocks) {
  return shape_of(blocks, 256, 32, 200'000);
}

LaunchShape collective_of(int blocks) {
  return shape_of(blocks, 640, 96, 33'000);
}

TEST(RoomForAllTest, blocks_that_fit_alone_may_not_fit_beside_others) {
  auto const device = HandMade().recording.devices.front();
  EXPECT_TRUE(lacks_room_for_all(device, collective_of(64), grid_of(69)));
  EXPECT_FALSE(lacks_room_for_all(device, collective_of(64), grid_of(68)));
  EXPECT_FALSE(lacks_room_for_all(device, collective_of(16), grid_of(108)));
  EXPECT_FALSE(lacks_room_for_all(device, collective_of(64), grid_of(133)));  // nor alone
  EXPECT_FALSE(lacks_room_for_all(device, collective_of(64), shape_of(132, 128, 16, 0)));
  EXPECT_TRUE(lacks_room_for_all(device, collective_of(132), grid_of(1)));
  EXPECT_FALSE(lacks_room_for_all(device, collective_of(64), {}));
}

/// Steps with a collective of 510 us, and a kernel of 600 us that was issued long before it began,
/// as the collective ended or its last blocks ran.
Report held_by_a_collective(int blocks_of_collective,
                            int blocks,
                            bool has_channels = true,
                            double begin_after_end = 2) {
  HandMade program;
  program.recording.has_stream_types = true;
  auto& shapes = program.recording.shapes;
  auto const wide = static_cast<Index>(shapes.size());
  shapes.push_back(collective_of(blocks_of_collective));
  shapes.push_back(grid_of(blocks));
  for (int step = 0; step < 6; ++step) {
    double const start = 1'114.0 * step;
    double const issued = 20.0 * step - 200;
    auto const reduce = program.kernel(0, issued, start, start + 510, wide);
    double const begin = start + 510 + begin_after_end;
    auto const whole = program.kernel(1, issued + 3, begin, begin + 600, wide + 1);
    auto& activities = program.recording.activities;
    activities[reduce].collective = static_cast<Index>(program.recording.collectives.size());
    program.recording.collectives.push_back({.ranks = 2, .sequence = step});
    activities[reduce].channel = has_channels ? 1 : kUnknown;
    activities[whole].channel = has_channels ? 2 : kUnknown;
    program.wait(0, 1, issued + 6, issued + 7);
  }
  program.recording.sort();
  return find(program.recording);
}

TEST(RoomForAllTest, a_collective_keeps_back_a_launch_that_needs_room_for_all_blocks) {
  auto const report = held_by_a_collective(64, 108);
  ASSERT_FALSE(report.findings.empty());
  auto const& finding = report.findings.front();
  EXPECT_EQ(finding.cause, Cause::collective_holds_sms);
  EXPECT_THAT(finding.evidence.front().text, HasSubstr("beside which 108 do not all find room"));
  // The replay keeps it back as well; with a collective of few blocks, the two run at once.
  ASSERT_TRUE(report.replay && finding.prediction);
  EXPECT_LT(report.replay->error(), 0.05);
  EXPECT_NEAR(finding.prediction->after, finding.prediction->before - finding.lost, 200'000);
}

/// The blocks of a collective do not end all at once. A kernel begins when enough of them have
/// ended, some 15 us before the collective does.
TEST(RoomForAllTest, the_replay_keeps_back_a_launch_that_began_beside_the_last_blocks) {
  auto const report = held_by_a_collective(64, 108, true, -15);
  ASSERT_FALSE(report.findings.empty());
  auto const& finding = report.findings.front();
  EXPECT_EQ(finding.cause, Cause::collective_holds_sms);
  ASSERT_TRUE(report.replay && finding.prediction);
  EXPECT_LT(report.replay->error(), 0.05);
  EXPECT_NEAR(finding.prediction->after, finding.prediction->before - finding.lost, 200'000);
}

/// A kernel that began in the middle of a collective was not kept back by most of its blocks: the
/// replay does not let it wait for the collective's end.
TEST(RoomForAllTest, the_replay_lets_a_launch_begin_in_the_middle_of_a_collective) {
  auto const report = held_by_a_collective(64, 108, true, -250);
  ASSERT_TRUE(report.replay);
  EXPECT_LT(report.replay->replayed, report.replay->recorded + 200'000);
}

TEST(RoomForAllTest, what_had_room_or_may_have_waited_otherwise_is_unknown) {
  for (auto const& report : {held_by_a_collective(16, 108), held_by_a_collective(64, 1'000)}) {
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings.front().cause, Cause::unknown);
  }
}

/// Traces of PyTorch and exports of Nsight Systems have no hardware queues.
TEST(RoomForAllTest, without_hardware_queues_the_lack_of_room_is_a_guess) {
  auto const report = held_by_a_collective(64, 108, false);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::collective_holds_sms);
  EXPECT_TRUE(report.findings.front().is_guess);
  EXPECT_FALSE(held_by_a_collective(64, 108, true).findings.front().is_guess);
}

/// A launch whose blocks would not all find room beside the collective waits for the legacy stream,
/// and may begin with a part of them.
TEST(RoomForAllTest, what_another_cause_kept_back_is_not_kept_back_for_room) {
  HandMade program;
  auto& recording = program.recording;
  recording.has_stream_types = true;
  recording.streams[0].type = StreamType::blocking;
  recording.streams[1].type = StreamType::legacy;
  auto const wide = static_cast<Index>(recording.shapes.size());
  recording.shapes.push_back(collective_of(24));
  recording.shapes.push_back(grid_of(132));
  for (int step = 0; step < 10; ++step) {
    double const start = 622.0 * step;
    auto const reduce = program.kernel(0, start, start + 4, start + 312, wide);
    program.kernel(1, start + 6, start + 314, start + 614, wide + 1);
    recording.activities[reduce].collective = static_cast<Index>(recording.collectives.size());
    recording.collectives.push_back({.ranks = 2, .sequence = step});
    auto const call = program.call(CallKind::synchronize, start + 12, start + 617);
    recording.syncs.push_back(
        {.time = recording.calls[call].time, .kind = SyncKind::device, .call = call});
  }
  recording.sort();
  auto const report = find(recording);
  auto const finding = std::ranges::find(report.findings, Cause::legacy_stream, &Finding::cause);
  ASSERT_NE(finding, report.findings.end());
  ASSERT_TRUE(finding->prediction);
  EXPECT_LT(finding->prediction->after, finding->prediction->before - finding->lost / 2);
}

/// A kernel that was issued early begins when another stream's graph ends.
TEST(RoomForAllTest, the_nodes_of_a_graph_that_keeps_work_back_are_to_be_recorded) {
  for (bool const is_graph : {true, false}) {
    HandMade program;
    program.recording.has_stream_types = true;
    program.recording.source = "msstream-overlap run";
    for (int step = 0; step < 6; ++step) {
      double const start = 650.0 * step;
      auto const graph = program.kernel(0, start, start + 10, start + 410);
      auto const kernel = program.kernel(1, start + 3, start + 412, start + 612);
      auto& activities = program.recording.activities;
      activities[kernel].channel = 2;
      if (is_graph) {
        activities[graph].kind = ActivityKind::graph;
        activities[graph].shape = kNone;
        program.recording.calls[activities[graph].call].kind = CallKind::graph_launch;
      }
      program.wait(0, 1, start + 6, start + 7);
    }
    program.recording.sort();
    auto const report = find(program.recording);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings.front().cause, Cause::unknown);
    EXPECT_EQ(report.findings.front().advice.find("--graph-nodes") != std::string::npos, is_graph);
  }
}

}  // namespace
}  // namespace msstream::overlap
