// SPDX-License-Identifier: Apache-2.0
// Tests the contract that runtime.hpp states, on every runtime. Tests of threads and of real time
// skip the simulation, which has one thread and its own virtual time.
#include "runtime/gate.hpp"
#include "runtime/runtime_fixture.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/sim.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace msstream::testing {
namespace {

#if MSSTREAM_CUDA
using ContractRuntimes = ::testing::Types<Tried<Host>, Tried<Sim>, Tried<Cuda>>;
#else
using ContractRuntimes = ::testing::Types<Tried<Host>, Tried<Sim>>;
#endif

template <class R>
using Contract = RuntimeTest<R>;
TYPED_TEST_SUITE(Contract, ContractRuntimes);

template <class R>
inline constexpr bool is_simulated = std::is_same_v<R, Tried<Sim>>;

TYPED_TEST(Contract, a_stream_runs_its_work_in_order) {
  auto const s = this->stream();
  Cell<TypeParam> cell(this->runtime);
  Cell<TypeParam> later(this->runtime);
  // The queue of the stream is [write 1, copy, write 2]: the copy must see the first write only.
  cell.write(1, s);
  this->runtime->copy(later.device(), cell.device(), Cell<TypeParam>::kBytes, CopyKind::d2d, s);
  cell.write(2, s);
  cell.read(s);
  later.read(s);
  this->runtime->synchronize_stream(s);
  EXPECT_EQ(later.seen(), 1);
  EXPECT_EQ(cell.seen(), 2);
}

TYPED_TEST(Contract, a_wait_holds_later_work_until_the_event) {
  auto const first = this->stream();
  auto const second = this->stream();
  Cell<TypeParam> cell(this->runtime);
  Gate gate;
  // The queue of `first` is [wait for the test's gate, write 1]; that of `second` is [wait for the
  // write, read, record done].
  gate.block(*this->runtime, first);
  cell.write(1, first);
  this->runtime->wait(second, this->recorded(first));
  cell.read(second);
  auto const done = this->recorded(second);
  EXPECT_FALSE(this->runtime->query(done));
  gate.open();
  this->runtime->synchronize(done);
  EXPECT_EQ(cell.seen(), 1);
}

TYPED_TEST(Contract, an_event_does_not_stand_for_later_work) {
  auto const s = this->stream();
  Gate gate;
  auto const before = this->recorded(s);
  gate.block(*this->runtime, s);
  this->runtime->synchronize(before);
  EXPECT_TRUE(this->runtime->query(before));
}

TYPED_TEST(Contract, recording_again_replaces_what_an_event_stands_for) {
  auto const blocked = this->stream();
  auto const idle = this->stream();
  Gate gate;
  gate.block(*this->runtime, blocked);
  auto const e = this->recorded(blocked);
  EXPECT_FALSE(this->runtime->query(e));
  this->runtime->record(e, idle);
  this->runtime->synchronize(e);
  EXPECT_TRUE(this->runtime->query(e));
}

TYPED_TEST(Contract, a_wait_takes_what_the_event_stands_for_at_the_call) {
  auto const blocked = this->stream();
  auto const idle = this->stream();
  auto const waiting = this->stream();
  auto const passing = this->stream();
  Gate gate;
  // The queue of `blocked` is [wait for the test's gate, record e]; that of `waiting` is [wait for
  // e]. Then e is recorded again, on `idle`, and the queue of `passing` is [wait for e].
  gate.block(*this->runtime, blocked);
  auto const e = this->recorded(blocked);
  this->runtime->wait(waiting, e);
  this->runtime->record(e, idle);
  this->runtime->wait(passing, e);
  auto const still_held = this->recorded(waiting);
  this->runtime->synchronize_stream(passing);
  EXPECT_FALSE(this->runtime->query(still_held));
  gate.open();
  this->runtime->synchronize(still_held);
}

TYPED_TEST(Contract, an_event_that_was_never_recorded_stands_for_nothing) {
  auto const s = this->stream();
  auto const e = this->event();
  EXPECT_TRUE(this->runtime->query(e));
  this->runtime->synchronize(e);
#if MSSTREAM_CHECKED
  EXPECT_THROW(this->runtime->wait(s, e), RaceError);
#else
  this->runtime->wait(s, e);
#endif
  this->runtime->synchronize_stream(s);
}

TYPED_TEST(Contract, a_stream_may_wait_for_itself) {
  auto const s = this->stream();
  Cell<TypeParam> cell(this->runtime);
  cell.write(3, s);
  this->runtime->wait(s, this->recorded(s));
  cell.read(s);
  this->runtime->synchronize_stream(s);
  EXPECT_EQ(cell.seen(), 3);
}

TYPED_TEST(Contract, waits_carry_order_from_stream_to_stream) {
  std::array<typename TypeParam::native_stream, 10> chain{};
  for (auto& link : chain) {
    link = this->stream();
  }
  Cell<TypeParam> cell(this->runtime);
  Gate gate;
  gate.block(*this->runtime, chain.front());
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (i > 0) {
      this->runtime->wait(chain[i], this->recorded(chain[i - 1]));
    }
    cell.write(static_cast<std::uint8_t>(i + 1), chain[i]);
  }
  cell.read(chain.back());
  auto const done = this->recorded(chain.back());
  EXPECT_FALSE(this->runtime->query(done));
  gate.open();
  this->runtime->synchronize(done);
  EXPECT_EQ(cell.seen(), 10);
}

TYPED_TEST(Contract, destroying_a_stream_with_work_in_flight_lets_the_work_run) {
  auto const doomed = this->runtime->create_stream(StreamPriority::normal);
  auto const s = this->stream();
  Cell<TypeParam> cell(this->runtime);
  Gate gate;
  gate.block(*this->runtime, doomed);
  cell.write(1, doomed);
  auto const written = this->recorded(doomed);
  this->runtime->destroy_stream(doomed);
  EXPECT_FALSE(this->runtime->query(written)) << "the work is still held";
  this->runtime->wait(s, written);
  cell.read(s);
  gate.open();
  this->runtime->synchronize_stream(s);
  EXPECT_TRUE(this->runtime->query(written));
  EXPECT_EQ(cell.seen(), 1);
}

TYPED_TEST(Contract, destroying_an_event_that_is_waited_for_keeps_the_order) {
  auto const first = this->stream();
  auto const second = this->stream();
  Cell<TypeParam> cell(this->runtime);
  Gate gate;
  gate.block(*this->runtime, first);
  cell.write(1, first);
  auto const doomed = this->runtime->create_event(EventTiming::untimed);
  this->runtime->record(doomed, first);
  this->runtime->wait(second, doomed);
  this->runtime->destroy_event(doomed);
  cell.read(second);
  auto const done = this->recorded(second);
  EXPECT_FALSE(this->runtime->query(done));
  gate.open();
  this->runtime->synchronize(done);
  EXPECT_EQ(cell.seen(), 1);
}

TYPED_TEST(Contract, timed_events_measure_the_stream) {
  if (is_simulated<TypeParam>) {
    GTEST_SKIP() << "measures real time; see sim_test.cpp";
  }
  auto const s = this->stream();
  auto const begin = this->event(EventTiming::timed);
  auto const end = this->event(EventTiming::timed);
  Gate gate;
  this->runtime->record(begin, s);
  this->runtime->synchronize(begin);
  gate.block(*this->runtime, s);
  this->runtime->record(end, s);
  auto const opens_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
  while (std::chrono::steady_clock::now() < opens_at) {
    std::this_thread::yield();
  }
  gate.open();
  EXPECT_GE(this->runtime->elapsed_ns(begin, end), 2.9e6);
  EXPECT_EQ(this->runtime->elapsed_ns(begin, begin), 0.0);
}

TYPED_TEST(Contract, measuring_waits_for_both_events) {
  if (is_simulated<TypeParam>) {
    GTEST_SKIP() << "asks from a second thread; see sim_test.cpp";
  }
  auto const behind = this->stream();
  auto const ahead = this->stream();
  auto const begin = this->event(EventTiming::timed);
  auto const end = this->event(EventTiming::timed);
  Gate gate;
  // The queue of `behind` is [wait for the test's gate, record begin]; that of `ahead` is [record
  // end].
  gate.block(*this->runtime, behind);
  this->runtime->record(begin, behind);
  this->runtime->record(end, ahead);
  this->runtime->synchronize(end);
  std::atomic<bool> asking{false};
  auto measured = std::async(std::launch::async, [&] {
    asking.store(true);
    asking.notify_one();
    return this->runtime->elapsed_ns(begin, end);
  });
  asking.wait(false);
  gate.open();
  EXPECT_LE(measured.get(), 0.0);
}

TYPED_TEST(Contract, only_timed_and_recorded_events_measure) {
  auto const s = this->stream();
  auto const untimed = this->recorded(s);
  auto const timed = this->event(EventTiming::timed);
  auto const never = this->event(EventTiming::timed);
  this->runtime->record(timed, s);
  this->runtime->synchronize_stream(s);
  EXPECT_ANY_THROW((void)this->runtime->elapsed_ns(untimed, timed));
  EXPECT_ANY_THROW((void)this->runtime->elapsed_ns(timed, untimed));
  EXPECT_ANY_THROW((void)this->runtime->elapsed_ns(timed, never));
  EXPECT_EQ(this->runtime->elapsed_ns(timed, timed), 0.0) << "and nothing is broken";
}

TYPED_TEST(Contract, copies_go_every_way) {
  constexpr std::size_t kBytes = 1000;
  auto& device = *this->runtime;
  auto const s = this->stream();
  auto* const from = static_cast<unsigned char*>(device.allocate_pinned(kBytes));
  auto* const to = static_cast<unsigned char*>(device.allocate_pinned(kBytes));
  void* const first = device.allocate_device(kBytes);
  void* const second = device.allocate_device(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) {
    from[i] = static_cast<unsigned char>(i * 7);
    to[i] = 0;
  }
  device.copy(first, from, kBytes, CopyKind::h2d, s);
  device.fill(second, 0xEE, kBytes, s);
  device.copy(second, first, kBytes - 1, CopyKind::d2d, s);
  device.copy(to, second, kBytes, CopyKind::d2h, s);
  device.synchronize_stream(s);
  EXPECT_EQ(std::memcmp(to, from, kBytes - 1), 0);
  EXPECT_EQ(to[kBytes - 1], 0xEE) << "not a byte more than was asked";
  device.free_pinned(from, kBytes);
  device.free_pinned(to, kBytes);
  device.free_device(first, kBytes);
  device.free_device(second, kBytes);
}

TYPED_TEST(Contract, copies_and_fills_return_before_they_are_done) {
  auto const s = this->stream();
  Cell<TypeParam> cell(this->runtime);
  Gate gate;
  gate.block(*this->runtime, s);
  cell.write(9, s);
  cell.read(s);
  EXPECT_EQ(cell.seen(), 0) << "both are behind the gate";
  gate.open();
  this->runtime->synchronize_stream(s);
  EXPECT_EQ(cell.seen(), 9);
}

TYPED_TEST(Contract, host_calls_run_in_stream_order_and_are_destroyed_before_the_stream_goes_on) {
  auto const s = this->stream();
  auto log = std::make_shared<std::vector<int>>();
  for (int i = 0; i < 100; ++i) {
    this->runtime->call_host(s, [log, i] { log->push_back(i); });
  }
  this->runtime->synchronize_stream(s);
  ASSERT_EQ(log->size(), 100U);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ((*log)[static_cast<std::size_t>(i)], i);
  }
  EXPECT_EQ(log.use_count(), 1);
}

TYPED_TEST(Contract, allocations_are_aligned_to_256_bytes) {
  for (std::size_t const bytes : {1U, 255U, 256U, 257U, 100'000U}) {
    void* const device = this->runtime->allocate_device(bytes);
    void* const pinned = this->runtime->allocate_pinned(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device) % 256, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pinned) % 256, 0U);
    this->runtime->free_device(device, bytes);
    this->runtime->free_pinned(pinned, bytes);
  }
}

TYPED_TEST(Contract, what_does_not_fit_is_out_of_memory_and_changes_nothing) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 60U;
  auto const before = this->runtime->memory_info();
  EXPECT_LE(before.free_bytes, before.total_bytes);
  try {
    (void)this->runtime->allocate_device(kTooMuch);
    FAIL() << "did not throw";
  } catch (OutOfMemory const& error) {
    EXPECT_EQ(error.requested_bytes(), kTooMuch);
  }
  EXPECT_EQ(this->runtime->memory_info().total_bytes, before.total_bytes);
  auto const s = this->stream();
  Cell<TypeParam> cell(this->runtime);
  cell.write(5, s);
  cell.read(s);
  this->runtime->synchronize_stream(s);
  EXPECT_EQ(cell.seen(), 5);
}

TYPED_TEST(Contract, every_priority_makes_a_stream) {
  for (auto const priority : {StreamPriority::low, StreamPriority::normal, StreamPriority::high}) {
    auto const s = this->runtime->create_stream(priority);
    this->runtime->synchronize_stream(s);
    this->runtime->destroy_stream(s);
  }
}

TYPED_TEST(Contract, many_threads_may_use_streams_and_events_at_once) {
  if (is_simulated<TypeParam>) {
    GTEST_SKIP() << "uses many threads; see sim_test.cpp";
  }
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<typename TypeParam::native_stream> streams;
  std::vector<typename TypeParam::native_event> events;
  for (int i = 0; i < kThreads; ++i) {
    streams.push_back(this->stream());
    events.push_back(this->recorded(streams.back()));
  }
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto const mine = this->runtime->create_event(EventTiming::untimed);
      for (std::size_t i = 0; i < kRounds; ++i) {
        this->runtime->record(mine, streams[t]);
        this->runtime->wait(streams[(t + 1) % kThreads], mine);
        this->runtime->record(events[i % kThreads], streams[t]);
        this->runtime->wait(streams[t], events[(i + t) % kThreads]);
        (void)this->runtime->query(events[(i + 1) % kThreads]);
      }
      this->runtime->synchronize(mine);
      this->runtime->destroy_event(mine);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (auto const s : streams) {
    this->runtime->synchronize_stream(s);
  }
  for (auto const e : events) {
    EXPECT_TRUE(this->runtime->query(e));
  }
}

}  // namespace
}  // namespace msstream::testing
