// SPDX-License-Identifier: Apache-2.0
// Tests that predictions promise nothing impossible, and that a replay without a fix takes as long
// as the recording.
#include "overlap/cases/trace_builder.hpp"
#include "overlap/find/find.hpp"
#include "overlap/find/hand_made.hpp"
#include "overlap/predict/replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace msstream::overlap::cases {
namespace {

using ::testing::HasSubstr;

Finding const* predicted(Report const& report, Cause cause) {
  auto const found = std::ranges::find(report.findings, cause, &Finding::cause);
  return found == report.findings.end() ? nullptr : &*found;
}

/// Returns the part of the recorded time that a replay without a fix takes.
double share_replayed(Recording const& recording) {
  Program const order(recording);
  Host const host(order);
  Collectives const collectives(order);
  Replay const replay(order, host, collectives, {}, *recording.extent());
  return replay.run({}).makespan_ns / static_cast<double>(replay.recorded_ns());
}

/// Each of two threads would have a stream, in which its kernels follow each other.
TEST(PredictionsTest, two_threads_in_one_stream_gain_at_most_two_streams) {
  TraceBuilder program;
  auto const stream = program.stream();
  for (int i = 0; i < 100; ++i) {
    program.thread().launch(stream, {.name = "a", .duration = 20 * us, .blocks = 8});
    program.second_thread().launch(stream, {.name = "b", .duration = 20 * us, .blocks = 8});
  }
  auto const report = find(program.run());
  auto const* const finding = predicted(report, Cause::one_stream_two_roles);
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  EXPECT_GE(finding->prediction->after, 100 * 20 * us);
  EXPECT_LE(finding->prediction->after, finding->prediction->before * 11 / 20);
  EXPECT_FALSE(finding->prediction->range);
}

/// The least time is that of the longest of: a thread's calls, a stream's work, a copy engine's,
/// and what the kernels take of the multiprocessors.
TEST(PredictionsTest, the_least_time_is_that_of_what_cannot_run_at_once) {
  auto const least = [](TraceBuilder const& program) {
    auto const recording = program.run();
    Program const order(recording);
    Host const host(order);
    Collectives const collectives(order);
    return Replay(order, host, collectives, {}, *recording.extent()).run({}).least_ns;
  };
  TraceBuilder calls;
  TraceBuilder work;
  TraceBuilder copies;
  TraceBuilder room;
  auto const in_calls = calls.stream();
  auto const in_work = work.stream();
  for (int i = 0; i < 10; ++i) {
    calls.thread().launch(in_calls, {.name = "short", .duration = 1 * us}, 50 * us);
    work.thread().launch(in_work, {.name = "long", .duration = 100 * us});
    copies.thread().copy(copies.stream(), CopyDirection::d2h, 5'000'000);
    room.thread().launch(room.stream(), {.name = "half", .duration = 200 * us, .blocks = 66 * 8});
  }
  EXPECT_NEAR(least(calls), 10 * 50 * us, 50 * us);
  EXPECT_NEAR(least(work), 10 * 100 * us, 5 * us);
  EXPECT_NEAR(least(copies), 10 * 101 * us, 10 * us);
  EXPECT_NEAR(least(room), 10 * 200 * us / 2, 300 * us);
}

/// A first call that loads code takes long before the window begins, at its first kernel.
TEST(PredictionsTest, calls_before_the_window_hide_no_gain) {
  TraceBuilder program;
  auto const stream = program.stream();
  program.thread().launch(stream, {.name = "first", .duration = 5 * us}, 40'000 * us);
  for (int i = 0; i < 500; ++i) {
    program.thread().launch(stream, {.name = "short", .duration = 2 * us}, 40 * us);
  }
  auto const report = find(program.run());
  auto const* const finding = predicted(report, Cause::launch_bound);
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  EXPECT_LT(finding->prediction->after, finding->prediction->before * 9 / 10);
}

/// Kernels of as many blocks as there are multiprocessors, which were recorded at once, fit.
TEST(PredictionsTest, what_was_recorded_at_once_can_run_at_once) {
  TraceBuilder program;
  std::vector<StreamNumber> const streams{
      program.stream(), program.stream(), program.stream(), program.stream()};
  for (int i = 0; i < 10; ++i) {
    for (auto const stream : streams) {
      program.thread().launch(stream, {.name = "wide", .duration = 100 * us, .blocks = 132});
    }
    program.thread().sync_device().busy(100 * us);
  }
  auto const recording = program.run();
  auto const report = find(recording);
  Program const order(recording);
  Host const host(order);
  Collectives const collectives(order);
  auto const window = *recording.extent();
  EXPECT_LE(Replay(order, host, collectives, {}, window).run({}).least_ns,
            static_cast<double>(window.length()));
}

/// Three wide kernels at once, which were recorded as fast as alone, and pageable copies before
/// them.
TEST(PredictionsTest, kernels_that_were_recorded_at_once_are_replayed_at_once) {
  for (bool const is_fast : {true, false}) {
    HandMade program(4);
    program.recording.shapes[0] = {.grid = {264, 1, 1}, .block = {256, 1, 1}};
    auto& names = program.recording.names;
    auto const kernel = [&](Index stream, double issued, double begin, double end) {
      auto const made = program.kernel(stream, issued, begin, end);
      program.recording.activities[made].name = names.id_of("wide");
    };
    double const slow = is_fast ? 200 : 600;
    kernel(1, -250, -230, -30);
    for (int i = 0; i < 20; ++i) {
      double const start = 1'000.0 * i;
      for (Index stream = 1; stream < 4; ++stream) {
        kernel(stream, start + 3 * stream, start + 10, start + 10 + slow);
      }
      program.call(CallKind::synchronize, start + 14, start + 15 + slow);
    }
    program.recording.sort();
    EXPECT_NEAR(share_replayed(program.recording), 1, 0.02) << is_fast;
  }
}

/// A kernel that fills the device begins beside a small one's rest, as fast as alone, or slower by
/// that rest, as its last blocks wait for it.
TEST(PredictionsTest, a_kernel_begins_in_parts_only_if_it_was_slower) {
  constexpr double kRest = 45;
  for (double const length : {202.0, 200 + kRest}) {
    HandMade program(3);
    auto const wide = static_cast<Index>(program.recording.shapes.size());
    program.recording.shapes.push_back(
        {.grid = {264, 1, 1}, .block = {1024, 1, 1}, .registers_per_thread = 32});
    auto const launch = [&](double issued, double begin, double end) {
      auto const kernel = program.kernel(1, issued, begin, end, wide);
      program.recording.activities[kernel].name = program.recording.names.id_of("wide");
    };
    launch(-230, -218, -18);
    program.call(CallKind::synchronize, -224, -14);
    for (int i = 0; i < 20; ++i) {
      double const start = (310 + length) * i;
      program.kernel(1, start, start + 12, start + 300);
      program.kernel(2, start + 3, start + 14, start + 302 + kRest);
      launch(start + 6, start + 302, start + 302 + length);
      program.call(CallKind::synchronize, start + 9, start + 305 + length);
    }
    program.recording.sort();
    EXPECT_NEAR(share_replayed(program.recording), 1, 0.02) << length;
  }
}

/// Replicas launch graphs of one number at once, the nodes of each in turn with those of others.
TEST(PredictionsTest, graphs_at_once_do_not_wait_for_each_other_in_a_replay) {
  TraceBuilder program;
  std::vector<StreamNumber> const streams{program.stream(), program.stream(), program.stream()};
  for (int i = 0; i < 20; ++i) {
    for (auto const stream : streams) {
      std::vector<Node> nodes;
      for (std::size_t node = 0; node < 6; ++node) {
        nodes.push_back({{.name = "node", .duration = 15 * us, .blocks = 8}, {}});
        if (node > 0) {
          nodes.back().after.push_back(node - 1);
        }
      }
      program.thread().launch_graph(stream, nodes, 8 * us, 5);
    }
  }
  EXPECT_NEAR(share_replayed(program.run()), 1, 0.05);
}

/// Copies to several devices at once, as a device sends its parts of a table.
TEST(PredictionsTest, peer_copies_that_were_seen_at_once_are_replayed_at_once) {
  HandMade program(4);
  for (int i = 0; i < 10; ++i) {
    for (Index peer = 0; peer < 4; ++peer) {
      double const begin = 250.0 * i + 3 * peer;
      program.copy(peer, CopyDirection::peer, begin, begin + 10, begin + 210);
    }
  }
  program.recording.sort();
  EXPECT_NEAR(share_replayed(program.recording), 1, 0.02);
}

/// Calls that load a kernel return long after it began, as do those that copy pageable memory.
TEST(PredictionsTest, work_may_begin_long_before_its_call_ends) {
  HandMade program(1);
  for (int i = 0; i < 20; ++i) {
    double const start = 300.0 * i;
    auto const kernel = program.kernel(0, start, start + 90, start + 280);
    program.recording.calls[program.recording.activities[kernel].call].time.end += 198'000;
    program.call(CallKind::synchronize, start + 201, start + 282);
  }
  program.recording.sort();
  EXPECT_NEAR(share_replayed(program.recording), 1, 0.01);
}

/// The first call takes 1,000 us, of which 10 are in the window.
TEST(PredictionsTest, of_calls_that_began_before_the_window_its_part_is_replayed) {
  HandMade program(1);
  auto const first = program.kernel(0, 0, 990, 995);
  program.recording.calls[program.recording.activities[first].call].time.end = 1'000'000;
  for (int i = 0; i < 50; ++i) {
    program.kernel(0, 1'005 + 20 * i, 1'010 + 20 * i, 1'020 + 20 * i);
  }
  program.recording.sort();
  EXPECT_NEAR(share_replayed(program.recording), 1, 0.01);
}

/// Two streams take turns by waits, of which the recording does not tell for what they are.
TEST(PredictionsTest, work_that_began_at_the_end_of_other_work_waited_for_it) {
  for (bool const has_waits : {false, true}) {
    HandMade program;
    program.recording.has_syncs = false;
    for (int i = 0; i < 40; ++i) {
      double const called = 10.0 * i;
      program.call(has_waits ? CallKind::wait_event : CallKind::other, called, called + 2);
      program.kernel(i % 2, called + 3, 20 + 202.0 * i, 220 + 202.0 * i);
    }
    program.recording.sort();
    EXPECT_NEAR(share_replayed(program.recording), has_waits ? 1 : 0.5, 0.02);
  }
}

/// Nothing that was recorded explains the 100 us before each kernel, least of all the copy.
TEST(PredictionsTest, a_copy_that_goes_on_explains_no_delay_of_a_kernel) {
  HandMade program;
  program.copy(1, CopyDirection::h2d, 0, 5, 4'000);
  for (int i = 0; i < 50; ++i) {
    program.kernel(0, 5 + 3.0 * i, 200 + 110.0 * i, 210 + 110.0 * i);
  }
  program.recording.sort();
  EXPECT_NEAR(share_replayed(program.recording), 1, 0.01);
}

/// The second stream needs what the first one computes, but the recording has one call of a wait.
TEST(PredictionsTest, without_waits_the_host_gains_at_most_what_it_lost) {
  for (bool const has_waits : {false, true}) {
    HandMade program;
    program.recording.has_syncs = has_waits;
    program.call(CallKind::wait_event, 0, 1);
    for (int i = 0; i < 20; ++i) {
      double const start = 600.0 * i + 2;
      program.kernel(0, start, start + 10, start + 200);
      program.kernel(1, start + 5, start + 202, start + 400);
    }
    program.recording.sort();
    auto const report = find(program.recording);
    auto const* const finding = predicted(report, Cause::host_busy);
    ASSERT_NE(finding, nullptr);
    ASSERT_TRUE(finding->prediction);
    auto const gain = finding->prediction->before - finding->prediction->after;
    EXPECT_EQ(gain <= finding->lost, !has_waits);
    if (!has_waits) {
      ASSERT_TRUE(finding->prediction->range);
      EXPECT_LT(finding->prediction->range->least, finding->prediction->after);
      EXPECT_THAT(finding->prediction->range->why, HasSubstr("lacks the waits of streams"));
    }
  }
}

/// Uploads of three streams at once take three times as long in a replay, which has one engine.
TEST(PredictionsTest, a_replay_that_is_far_from_the_recording_is_not_trusted) {
  for (bool const is_wrong : {false, true}) {
    HandMade program(3);
    for (int i = 0; i < 20; ++i) {
      double const start = 600.0 * i;
      for (Index stream = 0; stream < (is_wrong ? 3 : 1); ++stream) {
        program.copy(stream, CopyDirection::h2d, start + 3 * stream, start + 20, start + 320);
      }
    }
    program.recording.sort();
    auto const report = find(program.recording);
    ASSERT_TRUE(report.replay);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.replay->error() > 0.25, is_wrong) << report.replay->error();
    bool const is_noted = std::ranges::any_of(report.notes, [](std::string const& note) {
      return note.find("No gain can be predicted") != std::string::npos;
    });
    EXPECT_EQ(is_noted, is_wrong);
    for (auto const& finding : report.findings) {
      EXPECT_EQ(finding.prediction.has_value(), !is_wrong);
    }
    EXPECT_FALSE(report.together && is_wrong);
  }
}

/// A host that asks on although nothing runs any more does not wait for the device.
TEST(PredictionsTest, queries_after_the_end_of_the_work_are_no_wait) {
  HandMade program(1);
  for (int i = 0; i < 10; ++i) {
    double const start = 1'000.0 * i;
    program.kernel(0, start, start + 10, start + 200);
    for (int query = 0; query < 45; ++query) {
      double const at = start + 10 + 20.0 * query;
      program.call(CallKind::query, at, at + 2);
    }
  }
  program.recording.sort();
  auto const report = find(program.recording);
  Ns waiting = 0;
  Ns busy = 0;
  for (auto const& time : report.devices.at(0).times) {
    waiting +=
        time.kind == TimeClass::idle && time.cause == Cause::host_synchronization ? time.time : 0;
    busy += time.kind == TimeClass::idle && time.cause == Cause::host_busy ? time.time : 0;
  }
  // The device is idle for 800 us at a time. A query that sees this comes 20 us later at most, and
  // from then on the host waits for nothing.
  EXPECT_LT(waiting, 9 * 250 * us);
  EXPECT_GT(busy, 9 * 500 * us);
}

TEST(PredictionsTest, a_loop_of_queries_is_a_wait_and_says_for_what) {
  TraceBuilder program;
  auto const stream = program.stream();
  for (int i = 0; i < 10; ++i) {
    auto const ended = program.event();
    program.thread()
        .launch(stream, {.name = "step", .duration = 200 * us})
        .record(ended, stream)
        .poll_event(ended, 20 * us)
        .busy(90 * us);
  }
  auto const report = find(program.run());
  ASSERT_FALSE(report.findings.empty());
  auto const& finding = report.findings.front();
  EXPECT_EQ(finding.cause, Cause::host_synchronization);
  EXPECT_THAT(finding.evidence.front().text, HasSubstr("a loop of "));
  EXPECT_THAT(finding.evidence.front().text, HasSubstr("cudaEventQuery()"));
  EXPECT_THAT(finding.evidence.front().text, HasSubstr(", in which step on stream 13 ended"));
  ASSERT_TRUE(finding.prediction);
  // Without the loop, the steps of 200 us follow each other, and the host prepares meanwhile.
  EXPECT_LT(finding.prediction->after, finding.prediction->before * 8 / 10);
  EXPECT_GE(finding.prediction->after, 10 * 200 * us);
}

/// Two halves of a batch on two streams, and one communicator. Each half waits for the reduction of
/// the other one, without need; no recording tells that.
TEST(PredictionsTest, waits_that_may_not_be_needed_come_last_with_their_places) {
  TraceBuilder program;
  std::vector<StreamNumber> const compute{program.stream(), program.stream()};
  auto const reduce = program.stream();
  std::optional<EventNumber> reduced;
  for (int step = 0; step < 8; ++step) {
    for (std::size_t half = 0; half < 2; ++half) {
      auto& thread = program.thread();
      if (reduced) {
        thread.begin_range("wait of half " + std::to_string(half))
            .wait(compute[half], *reduced)
            .end_range();
      }
      auto const ready = program.event();
      reduced = program.event();
      thread.launch(compute[half], {.name = "forward", .duration = 300 * us, .blocks = 40})
          .record(ready, compute[half])
          .wait(reduce, ready)
          .launch(reduce,
                  {.name = "ncclDevKernel_AllReduce",
                   .duration = 200 * us,
                   .blocks = 16,
                   .collective = CollectiveOf{"allreduce", "dp", -1, 8'000'000}})
          .begin_range("reduced")
          .record(*reduced, reduce)
          .end_range()
          .busy(half == 0 ? 400 * us : 0);
    }
  }
  auto const report = find(program.run());
  ASSERT_FALSE(report.findings.empty());
  auto const& last = report.findings.back();
  EXPECT_EQ(last.cause, Cause::true_dependency);
  ASSERT_TRUE(last.prediction);
  ASSERT_TRUE(last.prediction->range);
  EXPECT_EQ(last.prediction->after, last.prediction->before);
  EXPECT_THAT(last.summary, HasSubstr("only you can tell whether it needs that"));
  auto const names_places = [](Evidence const& evidence) {
    return evidence.text.find("(in range wait of half ") != std::string::npos &&
           evidence.text.find("(in range reduced)") != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(last.evidence, names_places)) << last.evidence.front().text;
}

/// A kernel that fills the device, and small ones of another stream behind it, which fit beside one
/// of a smaller grid: the larger one takes longer by their part of the device.
TEST(PredictionsTest, small_kernels_find_room_beside_a_large_one) {
  for (int const registers : {16, 20, 32}) {
    for (int const waves : {1, 2}) {
      TraceBuilder program;
      auto const large = program.stream();
      auto const small = program.stream();
      for (int i = 0; i < 6; ++i) {
        auto const done = program.event();
        program.thread().launch(large,
                                {.name = "large",
                                 .duration = 1'000 * us,
                                 .blocks = waves * 264,
                                 .threads = 1024,
                                 .registers = registers});
        for (int k = 0; k < 10; ++k) {
          program.thread().launch(small, {.name = "small", .duration = 60 * us, .blocks = 60});
        }
        program.thread().record(done, small).wait(large, done);
      }
      auto const report = find(program.run());
      auto const* const finding = predicted(report, Cause::multiprocessors_full);
      ASSERT_NE(finding, nullptr);
      ASSERT_TRUE(finding->prediction && finding->prediction->range);
      auto const large_alone = static_cast<double>(6 * 1'000 * us);
      EXPECT_NEAR(static_cast<double>(finding->prediction->after), large_alone, 0.1 * large_alone)
          << registers << " registers, " << waves << " waves";
      EXPECT_EQ(finding->prediction->range->most, report.window.length());
    }
  }
}

/// Every fifth step downloads a large copy beside the small download of each step, for which the
/// host waits: issued first, one of five passes; between pieces of the large one, all do.
TEST(PredictionsTest, a_large_copy_in_pieces_lets_all_small_ones_pass) {
  auto const run = [](int pieces) {
    TraceBuilder program;
    auto const compute = program.stream();
    auto const large = program.stream();
    auto const small = program.stream();
    for (int i = 0; i < 20; ++i) {
      auto const computed = program.event();
      auto const read = program.event();
      program.thread()
          .launch(compute, {.name = "step", .duration = 150 * us, .blocks = 100})
          .record(computed, compute)
          .wait(large, computed)
          .wait(small, computed);
      for (int piece = 0; i % 5 == 0 && piece < pieces; ++piece) {
        program.thread().copy(large, CopyDirection::d2h, 60'000'000 / pieces);
      }
      program.thread()
          .copy(small, CopyDirection::d2h, 250'000)
          .record(read, small)
          .sync_event(read);
    }
    return program.run();
  };
  auto const report = find(run(1));
  auto const* const finding = predicted(report, Cause::copy_engine);
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction && finding->prediction->range);
  auto const divided = run(32).extent()->length();
  EXPECT_LT(finding->prediction->range->least, divided * 11 / 10);
  EXPECT_GT(finding->prediction->range->most, finding->prediction->range->least * 11 / 10);
}

/// Without pinned copies in the recording, the rate of the bus is assumed, and the range says so.
TEST(PredictionsTest, an_assumed_rate_of_pinned_copies_has_a_range) {
  for (bool const has_pinned : {false, true}) {
    TraceBuilder program;
    auto const stream = program.stream();
    if (has_pinned) {
      program.thread().copy(stream, CopyDirection::h2d, 4'000'000);
    }
    for (int i = 0; i < 10; ++i) {
      program.thread()
          .copy(stream, CopyDirection::h2d, 4'000'000, MemoryKind::pageable)
          .launch(stream, {.name = "step", .duration = 50 * us});
    }
    auto const report = find(program.run());
    auto const* const finding = predicted(report, Cause::pageable_copy);
    ASSERT_NE(finding, nullptr);
    ASSERT_TRUE(finding->prediction);
    ASSERT_EQ(finding->prediction->range.has_value(), !has_pinned);
    if (!has_pinned) {
      EXPECT_EQ(finding->prediction->range->least, finding->prediction->after);
      // Half the rate: 80 us more for each copy.
      EXPECT_NEAR(finding->prediction->range->most, finding->prediction->after + 800 * us, 50 * us);
      EXPECT_THAT(finding->prediction->range->why, HasSubstr("no pinned copies"));
    }
  }
}

}  // namespace
}  // namespace msstream::overlap::cases
