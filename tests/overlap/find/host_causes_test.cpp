// SPDX-License-Identifier: Apache-2.0
// Tests which calls of the host count for which cause, and that a fix changes all calls of its
// kind.
#include "overlap/cases/trace_builder.hpp"
#include "overlap/find/find.hpp"
#include "overlap/find/hand_made.hpp"
#include "overlap/predict/replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace msstream::overlap::cases {
namespace {

using ::testing::HasSubstr;

/// Returns the first finding, which has a cause and a prediction.
Finding first_finding(Report const& report, Cause cause) {
  if (report.findings.empty()) {
    ADD_FAILURE() << "no finding";
    return {};
  }
  auto const& finding = report.findings.front();
  EXPECT_EQ(finding.cause, cause) << finding.summary;
  EXPECT_TRUE(finding.prediction);
  return finding;
}

/// Two threads of a server, each with a stream: a kernel, a wait for it, and 100 us of other work.
/// Idle time is that of the thread whose work comes first, but both wait.
TEST(HostCausesTest, a_fix_changes_the_waits_of_all_threads) {
  TraceBuilder program;
  auto const first = program.stream();
  auto const second = program.stream();
  for (int i = 0; i < 40; ++i) {
    program.thread().launch(first, {.duration = 200 * us}).sync_stream(first).busy(100 * us);
    program.second_thread()
        .launch(second, {.duration = 200 * us})
        .sync_stream(second)
        .busy(100 * us);
  }
  auto const finding = first_finding(find(program.run()), Cause::host_synchronization);
  EXPECT_NEAR(finding.prediction->after, 40 * 200 * us, 400 * us);
}

TEST(HostCausesTest, a_fix_changes_the_allocations_of_all_threads) {
  HandMade program;
  program.recording.threads.push_back({.process = 1, .number = 2});
  for (int i = 0; i < 40; ++i) {
    double const start = 300.0 * i;
    for (Index thread = 0; thread < 2; ++thread) {
      auto const calls = program.recording.calls.size();
      program.call(CallKind::allocate, start, start + 280, "cudaMalloc");
      program.kernel(thread, start + 282, start + 288, start + 488);
      for (auto call = calls; call < program.recording.calls.size(); ++call) {
        program.recording.calls[call].thread = thread;
      }
    }
  }
  program.recording.sort();
  auto const finding = first_finding(find(program.recording), Cause::driver_allocation);
  EXPECT_NEAR(finding.prediction->after, 40 * 200 * us, 400 * us);
}

/// A value of four bytes is read by a copy to pageable memory, after which PyTorch synchronises the
/// stream: the short second call is part of the wait.
TEST(HostCausesTest, a_read_of_a_value_is_one_wait_with_the_synchronisation_after_it) {
  TraceBuilder program;
  auto const stream = program.stream();
  for (int i = 0; i < 50; ++i) {
    program.thread()
        .launch(stream, {.duration = 30 * us})
        .launch(stream, {.duration = 30 * us})
        .copy(stream, CopyDirection::d2h, 4, MemoryKind::pageable)
        .sync_stream(stream)
        .busy(20 * us);
  }
  auto const report = find(program.run());
  auto const finding = first_finding(report, Cause::host_synchronization);
  EXPECT_EQ(report.findings.size(), 1U);
  EXPECT_THAT(finding.evidence.front().text, HasSubstr("the host was in cudaMemcpyAsync()"));
}

/// A launch returns when the driver has done what another thread asked for.
TEST(HostCausesTest, an_allocation_of_another_thread_is_named) {
  for (bool const is_other : {true, false}) {
    HandMade program(1);
    program.recording.threads.push_back({.process = 1, .number = 2});
    for (int i = 0; i < 20; ++i) {
      double const start = 1'000.0 * i;
      auto const made = program.call(
          is_other ? CallKind::allocate : CallKind::other, start, start + 600, "cudaMalloc");
      program.recording.calls[made].thread = 1;
      auto const held = program.kernel(0, start + 1, start + 610, start + 700);
      program.recording.calls[program.recording.activities[held].call].time.end =
          static_cast<Ns>(start + 602) * us;
      program.kernel(0, start + 604, start + 701, start + 990);
    }
    program.recording.sort();
    auto const report = find(program.recording);
    if (!is_other) {
      ASSERT_FALSE(report.findings.empty());
      EXPECT_NE(report.findings.front().cause, Cause::driver_allocation);
      continue;
    }
    auto const finding = first_finding(report, Cause::driver_allocation);
    EXPECT_THAT(finding.evidence.front().text, HasSubstr("cudaMalloc() of 600"));
    EXPECT_LT(finding.prediction->after, finding.prediction->before / 2);
  }
}

/// An allocation from a pool is short unless the pool has to grow.
TEST(HostCausesTest, a_pool_that_grows_is_an_allocation_by_the_driver) {
  for (double const length : {500.0, 2.0}) {
    HandMade program(1);
    for (int i = 0; i < 20; ++i) {
      double const start = 600.0 * i;
      program.call(CallKind::pool_memory, start, start + length, "cudaMallocAsync");
      program.kernel(0, start + 502, start + 510, start + 590);
    }
    program.recording.sort();
    auto const report = find(program.recording);
    if (length < 500) {
      ASSERT_FALSE(report.findings.empty());
      EXPECT_EQ(report.findings.front().cause, Cause::host_busy);
      continue;
    }
    auto const finding = first_finding(report, Cause::driver_allocation);
    EXPECT_THAT(finding.advice, HasSubstr("at every synchronisation"));
  }
}

/// Graphs of five kernels of 1.6 us: the device has run each before the call for it returns.
TEST(HostCausesTest, graphs_that_are_shorter_than_their_launch_are_launch_bound) {
  HandMade program(1);
  for (int i = 0; i < 100; ++i) {
    double const start = 14.0 * i;
    auto const call = program.call(CallKind::graph_launch, start, start + 14, "cudaGraphLaunch");
    for (int node = 0; node < 5; ++node) {
      double const begin = start + 10 + 2 * node;
      auto const made = program.kernel(0, 0, begin, begin + 1.6);
      program.recording.calls.pop_back();
      auto& activity = program.recording.activities[made];
      activity.call = call;
      activity.graph = 3;
      activity.is_graph_node = true;
    }
  }
  program.recording.sort();
  auto const finding = first_finding(find(program.recording), Cause::launch_bound);
  EXPECT_GT(finding.lost, 99 * 4 * us);
  EXPECT_LT(finding.prediction->after, 100 * 11 * us);
  EXPECT_THAT(finding.advice, HasSubstr("those of graphs already"));
}

/// The host works for 300 us before each launch. If the device idles most of the time, the host may
/// as well wait for something to do.
TEST(HostCausesTest, a_host_that_works_before_each_launch_is_busy) {
  for (Ns const length : {200 * us, 100 * us}) {
    TraceBuilder program;
    auto const stream = program.stream();
    for (int i = 0; i < 50; ++i) {
      program.thread().busy(300 * us).launch(stream, {.duration = length});
    }
    auto const finding = first_finding(find(program.run()), Cause::host_busy);
    EXPECT_NEAR(finding.prediction->after, 50 * length, 500 * us);
    EXPECT_EQ(finding.advice.find("more load") != std::string::npos, length == 100 * us);
  }
}

/// An operation of a framework spans the gap between two launches. Where the thread usually goes on
/// after 2 us, 400 us are not its dispatch; where it usually takes 60 us, they may be.
TEST(HostCausesTest, an_operation_of_a_framework_is_dispatch_only_as_far_as_usual) {
  for (auto const& [usual, cause] :
       {std::pair(2.0, Cause::host_busy), std::pair(60.0, Cause::launch_bound)}) {
    HandMade program(1);
    double at = 0;
    for (int i = 0; i < 20; ++i) {
      double const begin = at;
      at += 400;
      program.recording.ranges.push_back(
          {.time = {static_cast<Ns>(begin * 1'000), static_cast<Ns>((at + 1) * 1'000)},
           .name = program.recording.names.id_of("aten::add"),
           .thread = 0,
           .kind = RangeKind::operation});
      for (int j = 0; j < 6; ++j) {
        program.kernel(0, at, at + 5, at + 15);
        at += 2 + usual;
      }
    }
    auto const report = find(program.recording);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings.front().cause, cause) << usual;
  }
}

/// An operation that ended before the next launch, such as one of the CPU, is work of the host.
TEST(HostCausesTest, an_operation_without_a_launch_is_no_dispatch) {
  HandMade program(1);
  double at = 0;
  for (int i = 0; i < 20; ++i) {
    program.recording.ranges.push_back(
        {.time = {static_cast<Ns>((at + 5) * 1'000), static_cast<Ns>((at + 395) * 1'000)},
         .name = program.recording.names.id_of("aten::stack"),
         .thread = 0,
         .kind = RangeKind::operation});
    at += 400;
    for (int j = 0; j < 6; ++j) {
      program.kernel(0, at, at + 5, at + 15);
      at += 30;
    }
  }
  auto const report = find(program.recording);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::host_busy);
}

/// The first call of a library may free no memory, and take seconds.
TEST(HostCausesTest, a_release_that_waits_for_nothing_and_takes_long_initialises) {
  for (bool const is_busy : {false, true}) {
    HandMade program(1);
    program.kernel(0, 0, 5, is_busy ? 500'000 : 50);
    program.call(CallKind::release, 100, 500'100, "cudaFree");
    program.kernel(0, 500'110, 500'115, 600'000);
    auto const report = find(program.recording);
    auto const cause = is_busy ? Cause::driver_allocation : Cause::lazy_loading;
    EXPECT_EQ(std::ranges::any_of(report.findings,
                                  [&](Finding const& finding) { return finding.cause == cause; }),
              !is_busy);
  }
}

/// Before each kernel, the host makes a call that takes long.
TEST(HostCausesTest, long_calls_that_do_not_launch_are_named) {
  struct Named {
    std::string_view name;
    double time;
    Cause cause;
  };
  for (auto const& [name, time, cause] : {Named{"cudaEventCreateWithFlags", 45, Cause::host_busy},
                                          Named{"cudaFuncGetAttributes", 900, Cause::lazy_loading},
                                          Named{"cuModuleGetFunction", 900, Cause::lazy_loading}}) {
    HandMade program(1);
    for (int i = 0; i < 20; ++i) {
      double const at = 1'000.0 * i * (time / 900);
      program.call(CallKind::other, at, at + time, name);
      program.kernel(0, at + time, at + time + 4, at + time + 5);
    }
    program.recording.sort();
    auto const report = find(program.recording);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings.front().cause, cause) << name;
    EXPECT_NE(report.findings.front().evidence.front().text.find(name), std::string::npos);
  }
}

/// A gap with several calls of one cause: the one that took the most is named, wherever it is.
TEST(HostCausesTest, the_call_that_took_the_time_is_named) {
  for (bool const is_first : {true, false}) {
    HandMade program(1);
    for (int i = 0; i < 20; ++i) {
      double const start = 1'000.0 * i;
      double const middle = start + (is_first ? 900 : 50);
      program.call(is_first ? CallKind::instantiate : CallKind::other,
                   start,
                   middle,
                   is_first ? "cudaGraphInstantiate" : "cudaStreamEndCapture");
      program.call(is_first ? CallKind::other : CallKind::instantiate,
                   middle,
                   start + 950,
                   is_first ? "cudaStreamEndCapture" : "cudaGraphInstantiate");
      program.kernel(0, start + 950, start + 954, start + 1'000);
    }
    program.recording.sort();
    auto const finding = first_finding(find(program.recording), Cause::host_busy);
    ASSERT_FALSE(finding.evidence.empty());
    EXPECT_THAT(finding.evidence.front().text, HasSubstr("cudaGraphInstantiate() of 900"));
    auto const named = program.recording.calls.at(finding.evidence.front().call).name;
    EXPECT_EQ(program.recording.names[named], "cudaGraphInstantiate");
  }
}

/// A program that ends soon after its start: nearly all launches are the first of their kernels.
TEST(HostCausesTest, first_launches_load_code_also_if_there_are_hardly_any_others) {
  TraceBuilder program;
  auto const stream = program.stream();
  for (int i = 0; i < 40; ++i) {
    program.thread().launch(
        stream, {.name = "kernel " + std::to_string(i), .duration = 50 * us}, 600 * us);
  }
  auto const finding = first_finding(find(program.run()), Cause::lazy_loading);
  EXPECT_NEAR(finding.prediction->after, 40 * 50 * us, 700 * us);
}

/// Kernels of two streams, with pauses of the recorder between the launches, outside of calls.
TEST(HostCausesTest, without_the_recorder_its_pauses_between_calls_are_gone) {
  auto const report_with = [](Ns pause) {
    TraceBuilder program;
    StreamNumber const streams[] = {program.stream(), program.stream()};
    for (int i = 0; i < 80; ++i) {
      program.thread().launch(streams[i % 2], {.duration = 15 * us});
      if (pause > 0) {
        program.thread().recorder(pause);
      }
    }
    return find(program.run());
  };
  auto const finding = first_finding(report_with(30 * us), Cause::recording_overhead);
  auto const fixed = report_with(0).window.length();
  EXPECT_GT(finding.prediction->before, 3 * fixed);
  EXPECT_NEAR(static_cast<double>(finding.prediction->after),
              static_cast<double>(fixed),
              0.1 * static_cast<double>(finding.prediction->before));
}

/// Launches of 2 us every 45 us, between which the recorder writes what it has: at one go, which
/// begins inside the launch, or in many pieces.
TEST(HostCausesTest, all_of_the_recorder_between_two_calls_is_gone_without_it) {
  for (int const pieces : {1, 100}) {
    HandMade program(1);
    for (int i = 0; i < 40; ++i) {
      double const start = 45.0 * i;
      program.kernel(0, start, start + 3, start + 6);
      for (int piece = 0; piece < pieces; ++piece) {
        auto const at = [&](int part) {
          return static_cast<Ns>((start + 1) * us) + 42 * us / pieces * part;
        };
        program.recording.overheads.push_back({.time = {at(piece), at(piece + 1)},
                                               .kind = OverheadKind::recording,
                                               .thread = piece % 2 == 0 ? 0 : kNone});
      }
    }
    program.recording.sort();
    Program const order(program.recording);
    Host const host(order);
    Collectives const collectives(order);
    Replay const replay(order, host, collectives, {}, *program.recording.extent());
    Fix fix;
    fix.no_overheads[static_cast<std::size_t>(Cause::recording_overhead)] = true;
    EXPECT_LT(replay.run(fix).makespan_ns, 0.2 * replay.run({}).makespan_ns) << pieces;
  }
}

}  // namespace
}  // namespace msstream::overlap::cases
