// SPDX-License-Identifier: Apache-2.0
// Tests that the tracker keeps the required order when a call of the runtime fails.
#include "stream/recording_runtime.hpp"

#include <msstream/stream/dependency_tracker.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

namespace msstream::testing {
namespace {

class TrackerFailure : public ::testing::Test {
 protected:
  using Tracker = DependencyTracker<RecordingRuntime>;
  using Node = RecordingRuntime::Oracle::Node;

  Tracker::Slot& new_slot() {
    return tracker.attach(runtime->create_stream(StreamPriority::normal), events);
  }
  std::uint64_t reserve_write(Tracker::Slot& slot, order::PositionSet& needed) {
    AccessSet accesses;
    accesses.add(x, AccessMode::write);
    return tracker.reserve(slot, accesses, needed);
  }
  Node write(Tracker::Slot& slot) {
    order::PositionSet needed;
    auto const number = reserve_write(slot, needed);
    Node node = 0;
    EXPECT_EQ(tracker.launch(slot, number, needed, [&] { node = runtime->work(slot.native); }),
              nullptr);
    return node;
  }

  std::shared_ptr<RecordingRuntime> runtime = std::make_shared<RecordingRuntime>();
  std::shared_ptr<EventPool<RecordingRuntime>> events =
      std::make_shared<EventPool<RecordingRuntime>>(runtime);
  Tracker tracker;
  AccessRecord x;
  Tracker::Slot& a = new_slot();
  Tracker::Slot& b = new_slot();
  Tracker::Slot& c = new_slot();
};

TEST_F(TrackerFailure, a_wait_that_fails_does_not_hide_what_it_was_for) {
  auto const first = write(a);
  runtime->before_wait = [](auto, auto const&) { throw std::runtime_error("wait"); };
  EXPECT_THROW(write(b), std::runtime_error);
  runtime->before_wait = [](auto, auto const&) {};
  EXPECT_EQ(b.launched.load(), b.reserved.load());
  EXPECT_TRUE(runtime->oracle().precedes(first, write(c)));
}

TEST_F(TrackerFailure, a_record_that_fails_does_not_hide_what_it_was_for) {
  auto const first = write(a);
  bool failed = false;
  runtime->before_record = [&] {
    if (!std::exchange(failed, true)) {
      throw std::runtime_error("record");
    }
  };
  EXPECT_THROW(write(b), std::runtime_error);
  EXPECT_TRUE(runtime->oracle().precedes(first, write(c)));
}

TEST_F(TrackerFailure, a_stream_that_cannot_record_at_all_does_not_hide_what_it_has) {
  auto const first = write(a);
  runtime->before_record = [] { throw std::runtime_error("record"); };
  EXPECT_THROW(write(b), std::runtime_error);
  runtime->before_record = [] {};
  EXPECT_TRUE(runtime->oracle().precedes(first, write(c)));
}

TEST_F(TrackerFailure, an_abandoned_operation_does_not_hide_what_it_had_to_follow) {
  auto const first = write(a);
  order::PositionSet needed;
  auto const number = reserve_write(b, needed);
  tracker.abandon(b, number, needed);
  EXPECT_EQ(b.launched.load(), number);
  EXPECT_TRUE(runtime->oracle().precedes(first, write(c)));
}

TEST_F(TrackerFailure, a_stream_whose_tail_cannot_be_recorded_is_waited_for_as_it_goes) {
  auto const first = write(a);
  runtime->before_record = [] { throw std::runtime_error("record"); };
  EXPECT_NO_THROW(tracker.detach(a)) << "it runs in a destructor";
  EXPECT_TRUE(runtime->oracle().precedes(first, write(b)));
}

TEST_F(TrackerFailure, a_failed_stream_that_is_gone_does_not_keep_new_ones_from_being_made) {
  write(a);
  tracker.detach(a);
  runtime->found_complete = []() -> bool { throw std::runtime_error("the work failed"); };
  Tracker::Slot* fresh = nullptr;
  ASSERT_NO_THROW(fresh = &new_slot());
  EXPECT_NE(fresh, &a);
}

TEST_F(TrackerFailure, more_streams_than_there_are_places_are_refused) {
  for (order::StreamIndex i = 3; i < Tracker::kMaxStreams; ++i) {
    new_slot();
  }
  EXPECT_THROW(new_slot(), std::length_error);
  tracker.detach(a);
  EXPECT_NO_THROW(new_slot());
}

}  // namespace
}  // namespace msstream::testing
