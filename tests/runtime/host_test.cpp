// SPDX-License-Identifier: Apache-2.0
// Tests what the host runtime promises beyond the contract: failures of closures and an exact
// memory limit.
#include "runtime/gate.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/host.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

// Makes allocations that are too large return null under sanitizers, because tests in this file
// expect them to fail.
extern "C" char const* __asan_default_options();   // NOLINT: the sanitizer's own name
extern "C" char const* __asan_default_options() {  // NOLINT
  return "allocator_may_return_null=1";
}
extern "C" char const* __tsan_default_options();   // NOLINT
extern "C" char const* __tsan_default_options() {  // NOLINT
  return "allocator_may_return_null=1";
}

namespace msstream::testing {
namespace {

class HostRuntime : public ::testing::Test {
 protected:
  Host host;
  Host::native_stream s = host.create_stream(StreamPriority::normal);
  Host::native_event e = host.create_event(EventTiming::untimed);

  void TearDown() override { host.destroy_event(e); }
};

TEST_F(HostRuntime, a_failed_closure_is_rethrown_by_all_who_ask_its_stream) {
  host.call_host(s, [] { throw std::range_error("the work"); });
  host.call_host(s, [] { throw std::logic_error("not the first"); });
  host.record(e, s);
  EXPECT_THROW(host.synchronize_stream(s), std::range_error);
  EXPECT_THROW(host.synchronize(e), std::range_error);
  EXPECT_THROW((void)host.query(e), std::range_error);
  EXPECT_THROW(host.synchronize_stream(s), std::range_error) << "it stays, as on a failed device";
}

TEST_F(HostRuntime, a_stream_goes_on_after_a_failure_that_only_those_who_wait_for_it_see) {
  auto const other = host.create_stream(StreamPriority::normal);
  auto const waiting = host.create_stream(StreamPriority::normal);
  auto const late = host.create_stream(StreamPriority::normal);
  bool ran = false;
  host.call_host(s, [] { throw std::range_error("the work"); });
  host.call_host(s, [&] { ran = true; });
  host.record(e, s);
  host.wait(waiting, e);
  EXPECT_THROW(host.synchronize_stream(waiting), std::range_error);
  EXPECT_TRUE(ran);
  host.wait(late, e);  // the failed work is complete by now
  EXPECT_THROW(host.synchronize_stream(late), std::range_error);
  EXPECT_NO_THROW(host.synchronize_stream(other));
}

TEST_F(HostRuntime, a_query_that_finds_the_failed_work_complete_rethrows) {
  for (int round = 0; round < 2000; ++round) {
    auto const fresh = host.create_stream(StreamPriority::normal);
    host.call_host(fresh, [] { throw std::range_error("the work"); });
    host.record(e, fresh);
    EXPECT_THROW(
        while (!host.query(e)) { std::this_thread::yield(); }, std::range_error);
    host.destroy_stream(fresh);
  }
}

TEST(HostRuntimeMemory, gives_up_to_its_limit_and_counts_what_comes_back) {
  Host host({.memory_bytes = 1000});
  void* const most = host.allocate_device(900);
  EXPECT_EQ(host.memory_info().free_bytes, 100U);
  EXPECT_EQ(host.memory_info().total_bytes, 1000U);
  EXPECT_THROW((void)host.allocate_device(101), OutOfMemory);
  void* const rest = host.allocate_device(100);
  EXPECT_EQ(host.memory_info().free_bytes, 0U);
  host.free_device(most, 900);
  host.free_device(rest, 100);
  EXPECT_EQ(host.memory_info().free_bytes, 1000U);
}

TEST(HostRuntimeMemory, threads_that_ask_too_much_do_not_take_from_those_that_do_not) {
  Host host({.memory_bytes = 1000});
  constexpr int kRefusals = 20'000;
  std::atomic<int> refused{0};
  std::thread greedy([&] {
    for (int i = 0; i < kRefusals; ++i) {
      EXPECT_THROW((void)host.allocate_device(1001), OutOfMemory);
      refused.fetch_add(1);
    }
  });
  int denied = 0;
  while (refused.load() < kRefusals) {
    try {
      host.free_device(host.allocate_device(1000), 1000);
    } catch (OutOfMemory const&) {
      ++denied;
    }
  }
  greedy.join();
  EXPECT_EQ(denied, 0);
}

TEST(HostRuntimeMemory, sizes_that_round_up_past_the_address_space_are_out_of_memory) {
  constexpr auto kMost = std::numeric_limits<std::size_t>::max();
  Host host({.memory_bytes = kMost});
  EXPECT_THROW((void)host.allocate_pinned(kMost), OutOfMemory);
  EXPECT_THROW((void)host.allocate_pinned(kMost - 254), OutOfMemory);
  EXPECT_THROW((void)host.allocate_device(kMost), OutOfMemory);
  EXPECT_EQ(host.memory_info().free_bytes, kMost);
}

TEST(HostRuntimeEnd, runs_what_is_queued_on_live_and_destroyed_streams) {
  std::atomic<int> ran{0};
  {
    Host host;
    for (int i = 0; i < 20; ++i) {
      auto const s = host.create_stream(StreamPriority::normal);
      for (int k = 0; k < 10; ++k) {
        host.call_host(s, [&] { ran.fetch_add(1); });
      }
      if (i % 2 == 0) {
        host.destroy_stream(s);
      }
    }
  }
  EXPECT_EQ(ran.load(), 200);
}

TEST(HostQueueClosures, are_destroyed_as_they_finish_not_when_a_backlog_is_done) {
  Host host;
  auto const s = host.create_stream(StreamPriority::normal);
  auto const e = host.create_event(EventTiming::untimed);
  auto held = std::make_shared<int>(0);
  Gate start;
  Gate end;
  // The queue of the stream is [wait for the gate `start`, a closure with a copy of `held`, record
  // e, wait for the gate `end`]. All work after the first gate becomes ready at once.
  start.block(host, s);
  host.call_host(s, [held] { ++*held; });
  host.record(e, s);
  end.block(host, s);
  start.open();
  host.synchronize(e);
  EXPECT_EQ(held.use_count(), 1);
  host.destroy_event(e);
}

}  // namespace
}  // namespace msstream::testing
