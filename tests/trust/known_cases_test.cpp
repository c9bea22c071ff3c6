// SPDX-License-Identifier: Apache-2.0
// Tests of the mistakes that other checkers of asynchronous device code find. Each is tested
// together with the correct program.
#include "trust/checker_fixture.hpp"

#include <msstream/step/parameters.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <fmt/core.h>

#include <set>
#include <stdexcept>
#include <string>

namespace msstream::testing {
namespace {

class KnownCases : public ::testing::Test {
 protected:
  void expect_race(std::string const& first, std::string const& second) {
    auto const report = only_report(on.checker, CheckKind::race);
    ASSERT_TRUE(report.first.has_value() && report.second.has_value());
    EXPECT_EQ(report.first->operation, first);
    EXPECT_EQ(report.second->operation, second);
    on.checker.clear();
  }
  void expect_silence() { EXPECT_EQ(on.checker.count(), 0U) << on.checker.json(); }

  Streams on{{.mode = CheckMode::count}};
};

TEST_F(KnownCases, a_record_that_is_too_old) {
  // The event is recorded before the write: stream 1 = [record e1, write], stream 2 = [wait e1,
  // read].
  on.record(1, 1);
  on.write(1, 0, "write");
  on.wait(2, 1);
  on.read(2, 0, "read");
  expect_race("write", "read");
}

TEST_F(KnownCases, a_record_that_is_new_enough) {
  // The event is recorded after the write: stream 1 = [write, record e1], stream 2 = [wait e1,
  // read].
  on.write(1, 0, "write");
  on.record(1, 1);
  on.wait(2, 1);
  on.read(2, 0, "read");
  expect_silence();
}

TEST_F(KnownCases, a_record_that_was_overridden_stands_for_the_second_only) {
  on.write(1, 0, "of stream 1");
  on.write(2, 1, "of stream 2");
  on.record(1, 1);
  on.record(1, 2);  // the event now represents stream 2 only
  on.wait(3, 1);
  on.read(3, 1, "reads the second");
  expect_silence();
  on.read(3, 0, "reads the first");
  expect_race("of stream 1", "reads the first");
}

TEST_F(KnownCases, a_wait_takes_what_the_event_stood_for_then) {
  on.write(1, 0, "of stream 1");
  on.record(1, 1);
  on.wait(3, 1);
  on.record(1, 2);  // too late to change the wait before
  on.read(3, 0, "read");
  expect_silence();
}

/// A wait uses the recording from before the wait was called, even if another thread records the
/// event again during the call.
TEST_F(KnownCases, a_wait_takes_what_the_event_stood_for_before_the_call) {
  on.record(1, 1);
  auto const moment = on.checker.waitable_moment_of(1, 3);
  on.write(2, 0, "of stream 2");
  on.record(1, 2);
  on.checker.waited(3, moment.value());
  on.read(3, 0, "read");
  expect_race("of stream 2", "read");
}

TEST_F(KnownCases, a_record_again_on_the_same_stream_covers_both) {
  on.write(1, 0, "early");
  on.record(1, 1);
  on.write(1, 1, "late");
  on.wait(2, 1);
  on.read(2, 1, "read");
  expect_race("late", "read");
  on.record(1, 1);
  on.wait(3, 1);
  on.read(3, 0, "read");
  on.read(3, 1, "read");
  expect_silence();
}

TEST_F(KnownCases, an_event_that_was_deleted_orders_nothing) {
  on.checker.event_created(1);
  on.write(1, 0, "write");
  on.record(1, 1);
  on.checker.event_destroyed(1);
  on.wait(2, 1);
  only_report(on.checker, CheckKind::dead_event);
  on.checker.clear();
  on.read(2, 0, "read");
  expect_race("write", "read");
}

TEST_F(KnownCases, an_event_that_is_deleted_after_the_wait_has_ordered) {
  on.checker.event_created(1);
  on.write(1, 0, "write");
  on.record(1, 1);
  on.wait(2, 1);
  on.checker.event_destroyed(1);
  on.read(2, 0, "read");
  expect_silence();
}

/// A new event with the handle of a destroyed event is unrecorded, and orders nothing.
TEST_F(KnownCases, an_event_that_is_made_again_stands_for_nothing) {
  on.checker.event_created(1);
  on.write(1, 0, "write");
  on.record(1, 1);
  on.checker.event_destroyed(1);
  on.checker.event_created(1);
  on.wait(2, 1);
  only_report(on.checker, CheckKind::unrecorded_wait);
  on.checker.clear();
  on.read(2, 0, "read");
  expect_race("write", "read");
  on.checker.event_destroyed(1);
}

TEST_F(KnownCases, a_chain_of_ten_streams) {
  for (Checker::Handle stream = 11; stream <= 20; ++stream) {
    on.checker.stream_created(stream);
  }
  for (bool const is_whole : {true, false}) {
    on.write(11, 0, "start");
    for (Checker::Handle stream = 11; stream < 20; ++stream) {
      if (is_whole || stream != 15) {
        on.order(stream, stream + 1);
      }
    }
    on.write(20, 0, "end");
    if (is_whole) {
      expect_silence();
      on.synchronize(20);
    } else {
      expect_race("start", "end");
    }
  }
}

TEST_F(KnownCases, a_write_must_follow_all_readers) {
  on.write(1, 0, "weights");
  for (Checker::Handle stream = 2; stream <= 6; ++stream) {
    on.order(1, stream);
    on.read(stream, 0, fmt::format("reader {}", stream));
  }
  on.order(3, 1);
  on.order(5, 1);
  on.write(1, 0, "update");
  std::set<std::string> missing;
  for (auto const& report : on.checker.reports()) {
    EXPECT_EQ(report.second->operation, "update");
    missing.insert(report.first->operation);
  }
  EXPECT_EQ(missing, (std::set<std::string>{"reader 2", "reader 4", "reader 6"}));
}

TEST_F(KnownCases, a_write_that_follows_all_readers) {
  on.write(1, 0, "weights");
  for (Checker::Handle stream = 2; stream <= 6; ++stream) {
    on.order(1, stream);
    on.read(stream, 0, fmt::format("reader {}", stream));
    on.read(stream, 0, "again");
  }
  for (Checker::Handle stream = 2; stream <= 6; ++stream) {
    on.order(stream, 1);
  }
  on.write(1, 0, "update");
  expect_silence();
}

/// If a stream reads the same memory twice, a writer must wait for the second read; waiting for the
/// first one is not enough.
TEST_F(KnownCases, a_write_that_follows_the_first_of_two_reads_of_a_stream) {
  on.read(2, 0, "first read");
  on.order(2, 1);
  on.read(2, 0, "second read");
  on.write(1, 0, "update");
  expect_race("second read", "update");
}

/// Streams that wait for each other's first operation, s1 = [a, wait for b, read of b], s2 = [b,
/// wait for a, read of a], know each other's first operation only.
TEST_F(KnownCases, waits_that_cross) {
  on.write(1, 0, "a");
  on.write(2, 1, "b");
  on.record(1, 1);
  on.record(2, 2);
  on.wait(1, 2);
  on.wait(2, 1);
  on.read(1, 1, "reads b");
  on.read(2, 0, "reads a");
  on.order(1, 3);
  on.write(3, 1, "after both by one");  // stream 3 follows a, b and the read of b
  expect_silence();
  on.write(3, 0, "after a, not its read");
  expect_race("reads a", "after a, not its read");
}

TEST_F(KnownCases, an_event_carries_what_its_stream_knew_when_it_was_recorded) {
  on.write(1, 0, "write");
  on.record(2, 2);  // records stream 2 before its wait for the write
  on.order(1, 2);
  on.wait(3, 2);
  on.read(3, 0, "read");
  expect_race("write", "read");
  on.record(2, 2);
  on.wait(4, 2);
  on.read(4, 0, "read");
  expect_silence();
}

TEST_F(KnownCases, readers_overlap_between_writers) {
  for (int round = 0; round < 3; ++round) {
    on.write(1, 0, "writer");
    for (Checker::Handle stream = 2; stream <= 4; ++stream) {
      on.order(1, stream);
      on.read(stream, 0, "reader");
    }
    for (Checker::Handle stream = 2; stream <= 4; ++stream) {
      on.order(stream, 1);
    }
  }
  expect_silence();
  on.order(1, 2);
  on.write(1, 0, "writer");
  on.read(2, 0, "reader of the next round");
  expect_race("writer", "reader of the next round");
}

TEST_F(KnownCases, work_of_one_stream_is_in_order) {
  on.write(1, 0, "one");
  on.read(1, 0, "two");
  on.write(1, 0, "three");
  expect_silence();
}

TEST_F(KnownCases, a_host_that_has_waited_orders_all_streams_but_only_what_it_has_seen) {
  on.write(1, 0, "seen");
  on.record(1, 1);
  on.write(1, 1, "not seen");
  on.checker.host_saw(on.checker.moment_of(1, "query").value());
  on.read(2, 0, "read");
  expect_silence();
  on.read(2, 1, "read");
  expect_race("not seen", "read");
}

TEST(KnownCasesOfTensors, a_write_to_an_immutable_one_is_refused) {
  using R = Checked<Sim>;
  auto const device = checked_device<Sim>({.mode = CheckMode::count});
  StreamPool<R> pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
  auto tensor = zeros<float, R>(device, {16});
  tensor.freeze();
  for (int i = 0; i < 2; ++i) {
    StreamScope const scope(pool[i]);
    issue("read", reads(tensor), kNoWork);
  }
  auto const& checker = *device.runtime().checker();
  EXPECT_EQ(checker.count(), 0U) << checker.json();
  EXPECT_THROW(issue("write", writes(tensor), kNoWork), std::logic_error);
  EXPECT_EQ(checker.count(), 0U) << checker.json();
  // A write through RawMemory is not refused, but it is a race like any other, because it does not
  // wait for the readers of the frozen tensor.
  issue("write", writes(raw(device, tensor)), kNoWork);
  EXPECT_EQ(checker.count(CheckKind::race), 2U) << checker.json();
}

TEST(KnownCasesOfTensors, a_write_to_one_that_is_immutable_no_more_follows_its_readers) {
  using R = Checked<Sim>;
  auto const device = checked_device<Sim>({.mode = CheckMode::count});
  StreamPool<R> pool(device, {.groups = 3, .launch_threads = LaunchThreads::none});
  Parameters<R> parameters(device);
  auto const weight = parameters.dense("weight", {16}, init::zeros());
  parameters.freeze("*");
  for (int i = 0; i < 2; ++i) {
    StreamScope const scope(pool[i]);
    issue("read", reads(weight), kNoWork);
  }
  parameters.unfreeze("*");
  StreamScope const scope(pool[2]);
  issue("write", writes(weight), kNoWork);
  auto const& checker = *device.runtime().checker();
  EXPECT_EQ(checker.count(), 0U) << checker.json();
}

/// The tracker does not order operations after the readers of an immutable tensor. Nevertheless,
/// its memory is reused only after the readers.
TEST(KnownCasesOfTensors, an_immutable_ones_memory_is_reused_after_its_readers) {
  using R = Checked<Sim>;
  // The memory limit makes the allocator reuse the memory of another group instead of allocating
  // fresh memory.
  auto const device = checked_device<Sim>({.mode = CheckMode::count}, {}, {.soft_limit_bytes = 1});
  StreamPool<R> pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
  void const* before = nullptr;
  {
    auto tensor = zeros<float, R>(device, {1 << 20});
    tensor.freeze();
    before = tensor.data();
    StreamScope const scope(pool[0]);
    issue("read", reads(tensor), kNoWork);
  }
  auto const next = zeros<float, R>(device, {1 << 20});
  ASSERT_EQ(next.data(), before) << "the program tests nothing";
  auto const& checker = *device.runtime().checker();
  EXPECT_EQ(checker.count(), 0U) << checker.json();
}

}  // namespace
}  // namespace msstream::testing
