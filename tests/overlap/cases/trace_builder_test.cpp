// SPDX-License-Identifier: Apache-2.0
// Tests of the simulated GPU itself: each rule of CUDA that the cases rely on.
#include "overlap/cases/trace_builder.hpp"

#include <gtest/gtest.h>

namespace msstream::overlap::cases {
namespace {

class TraceBuilderTest : public testing::Test {
 protected:
  /// The time of the n-th activity of a name.
  Interval time(std::string_view name, std::size_t n = 0) {
    return recording.activities[find_activity(recording, name, n)].time;
  }
  static bool overlap(Interval a, Interval b) { return a.begin < b.end && b.begin < a.end; }

  TraceBuilder program;
  Recording recording;
};

Kernel small(std::string name, Ns duration = 100 * us) {
  return {.name = std::move(name), .duration = duration, .blocks = 16};
}

Kernel full(std::string name, Ns duration = 100 * us) {
  return {.name = std::move(name), .duration = duration, .blocks = 132 * 8};
}

TEST_F(TraceBuilderTest, a_stream_keeps_its_order_and_two_streams_overlap) {
  auto const a = program.stream();
  auto const b = program.stream();
  program.thread().launch(a, small("a1")).launch(a, small("a2")).launch(b, small("b"));
  recording = program.run();  // a = [a1, a2], b = [b]
  EXPECT_GE(time("a2").begin, time("a1").end);
  EXPECT_TRUE(overlap(time("a1"), time("b")));
  EXPECT_EQ(time("a1").length(), 100 * us);
  EXPECT_EQ(recording.calls.size(), 3);
  EXPECT_GE(time("a1").begin, recording.calls[0].time.end);
}

TEST_F(TraceBuilderTest, the_legacy_stream_is_a_barrier_for_blocking_streams_only) {
  auto const legacy = program.stream(StreamType::legacy);
  auto const blocking = program.stream(StreamType::blocking);
  auto const other = program.stream();
  program.thread()
      .launch(blocking, small("before"))
      .launch(legacy, small("legacy"))
      .launch(blocking, small("after"))
      .launch(other, small("other"));
  recording = program.run();
  EXPECT_GE(time("legacy").begin, time("before").end);
  EXPECT_GE(time("after").begin, time("legacy").end);
  EXPECT_TRUE(overlap(time("other"), time("before")));
}

TEST_F(TraceBuilderTest, a_wait_covers_what_was_issued_before_the_recording) {
  auto const a = program.stream();
  auto const b = program.stream();
  auto const event = program.event();
  program.thread()
      .launch(a, small("a1"))
      .record(event, a)
      .launch(a, small("a2"))
      .wait(b, event)
      .launch(b, small("b"));
  recording = program.run();  // b waits for a1, not for a2
  EXPECT_GE(time("b").begin, time("a1").end);
  EXPECT_LT(time("b").begin, time("a2").end);
  ASSERT_EQ(recording.syncs.size(), 1);
  EXPECT_EQ(recording.syncs[0].record_stream, a);
  EXPECT_EQ(recording.syncs[0].record_call, recording.event_records.at(0).call);
}

TEST_F(TraceBuilderTest, a_full_device_admits_a_kernel_in_the_last_wave) {
  auto const a = program.stream();
  auto const b = program.stream();
  auto big = full("big");
  big.blocks = 132 * 8 + 1;  // two waves of 50 us: the second has one block
  program.thread().launch(a, big).launch(b, small("small"));
  recording = program.run();
  EXPECT_EQ(time("small").begin, time("big").begin + 50 * us);
}

TEST_F(TraceBuilderTest, a_priority_passes_waiting_blocks_and_no_running_ones) {
  auto const low = program.stream();
  auto const high = program.stream(StreamType::non_blocking, -1);
  auto big = full("big", 400 * us);
  big.blocks *= 4;
  program.thread().launch(low, big).launch(high, full("urgent", 50 * us));
  recording = program.run();
  EXPECT_EQ(time("urgent").begin, time("big").begin + 100 * us);
  EXPECT_EQ(time("big").length(), 450 * us);
}

TEST_F(TraceBuilderTest, a_hardware_queue_keeps_the_order_of_calls) {
  Gpu gpu;
  gpu.channels = 1;
  program = TraceBuilder(gpu);
  auto const a = program.stream();
  auto const b = program.stream();
  program.thread().launch(a, small("a1")).launch(a, small("a2")).launch(b, small("b"));
  recording = program.run();
  EXPECT_GE(time("b").begin, time("a1").end);
  EXPECT_TRUE(overlap(time("a2"), time("b")));
}

TEST_F(TraceBuilderTest, a_copy_engine_takes_one_copy_of_its_direction_at_a_time) {
  auto const a = program.stream();
  auto const b = program.stream(StreamType::non_blocking, -1);
  auto const c = program.stream();
  program.thread()
      .copy(a, CopyDirection::h2d, 50'000'000)  // 1 ms
      .copy(b, CopyDirection::h2d, 500)
      .copy(c, CopyDirection::d2h, 50'000'000);
  recording = program.run();
  auto const& activities = recording.activities;
  EXPECT_EQ(activities[0].time.length(), 1 * ms + 1200);
  EXPECT_EQ(activities[2].time.begin, activities[0].time.end);  // the priority does not help
  EXPECT_TRUE(overlap(activities[0].time, activities[1].time));
}

TEST_F(TraceBuilderTest, a_pageable_copy_blocks_the_host) {
  auto const a = program.stream();
  auto const b = program.stream();
  program.thread()
      .copy(a, CopyDirection::h2d, 8'000'000, MemoryKind::pageable)  // 1 ms
      .launch(b, small("b"));
  recording = program.run();
  EXPECT_GE(recording.calls[1].time.begin, recording.activities[0].time.end);
}

TEST_F(TraceBuilderTest, synchronising_calls_and_cudafree_wait) {
  auto const a = program.stream();
  program.thread().launch(a, small("a")).sync_stream(a).launch(a, small("b")).release().busy(1);
  recording = program.run();
  EXPECT_GE(recording.calls[1].time.end, time("a").end);
  EXPECT_GE(recording.calls[3].time.end, time("b").end);
  EXPECT_EQ(recording.syncs.size(), 1);
}

TEST_F(TraceBuilderTest, loading_a_module_drains_the_device_and_holds_other_threads) {
  auto const a = program.stream();
  auto const b = program.stream();
  program.thread().launch(a, small("a", 1 * ms)).launch_first(a, small("new"), 200 * us, true);
  program.second_thread().busy(50 * us).launch(b, small("b"));
  recording = program.run();
  EXPECT_GE(time("new").begin, time("a").end + 200 * us);
  EXPECT_GE(time("b").begin, time("a").end + 200 * us);
}

TEST_F(TraceBuilderTest, bandwidth_is_shared) {
  auto const a = program.stream();
  auto const b = program.stream();
  auto first = small("a");
  first.bandwidth = 1;
  auto second = first;
  second.name = "b";
  program.thread().launch(a, first).launch(b, second);
  recording = program.run();
  EXPECT_GT(time("a").length(), 190 * us);
  EXPECT_LE(time("a").length(), 200 * us);
}

TEST_F(TraceBuilderTest, a_full_queue_blocks_the_host) {
  Gpu gpu;
  gpu.queue_depth = 4;
  program = TraceBuilder(gpu);
  auto const a = program.stream();
  for (int i = 0; i < 8; ++i) {
    program.thread().launch(a, small("a"));
  }
  recording = program.run();
  ASSERT_FALSE(recording.overheads.empty());
  EXPECT_EQ(recording.overheads[0].kind, OverheadKind::queue_is_full);
}

TEST_F(TraceBuilderTest, branches_of_a_graph_overlap) {
  auto const a = program.stream();
  program.thread()
      .launch_graph(a,
                    {{small("fork"), {}},
                     {small("left"), {0}},
                     {small("right"), {0}},
                     {small("join"), {1, 2}}})
      .launch(a, small("after"));
  recording = program.run();
  EXPECT_TRUE(overlap(time("left"), time("right")));
  EXPECT_GE(time("left").begin, time("fork").end);
  EXPECT_GE(time("join").begin, time("right").end);
  EXPECT_GE(time("after").begin, time("join").end);
}

TEST_F(TraceBuilderTest, equal_programs_give_equal_recordings) {
  auto const a = program.stream();
  program.thread().launch(a, small("a")).copy(a, CopyDirection::d2h, 1000).sync_device();
  recording = program.run();
  auto const again = program.run();
  ASSERT_EQ(again.activities.size(), recording.activities.size());
  for (std::size_t i = 0; i < again.activities.size(); ++i) {
    EXPECT_EQ(again.activities[i].time, recording.activities[i].time);
  }
}

}  // namespace
}  // namespace msstream::overlap::cases
