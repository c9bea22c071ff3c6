// SPDX-License-Identifier: Apache-2.0
// Tests what the simulating runtime promises beyond the contract: it reaches any legal order of the
// work, and repeats an order for the same schedule.
#include "runtime/sim/sim_schedule.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/sim.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::uint64_t kSeeds = 200;

/// A simulation with two streams and an event.
struct Simulation {
  explicit Simulation(sim::ScheduleFactory schedule) : runtime({.schedule = std::move(schedule)}) {}
  ~Simulation() { runtime.destroy_event(e); }

  Sim runtime;
  Sim::native_stream first = runtime.create_stream(StreamPriority::normal);
  Sim::native_stream second = runtime.create_stream(StreamPriority::normal);
  Sim::native_event e = runtime.create_event(EventTiming::untimed);
};

/// Returns the log that host functions on two streams, and queries by the host in between, write
/// under the random schedule of `seed`.
std::string seen_with(std::uint64_t seed) {
  std::string log;
  Simulation s(sim::random(seed));
  for (char const letter : {'a', 'b', 'c', 'd'}) {
    s.runtime.call_host(s.first, [&log, letter] { log += letter; });
    s.runtime.call_host(s.second, [&log, letter] { log += static_cast<char>(letter - 'a' + 'A'); });
    s.runtime.record(s.e, s.first);
    log += s.runtime.query(s.e) ? '+' : '-';
  }
  s.runtime.synchronize_stream(s.first);
  s.runtime.synchronize_stream(s.second);
  return log;
}

TEST(SimRandom, a_seed_gives_the_same_run_again_and_others_other_runs) {
  std::set<std::string> runs;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    auto const run = seen_with(seed);
    EXPECT_EQ(run, seen_with(seed)) << seed;
    runs.insert(run);
  }
  EXPECT_GT(runs.size(), kSeeds / 2) << "few runs are alike";
}

TEST(SimRandom, every_order_of_two_streams_is_reached) {
  // Two streams with the queues [a, b] and [A, B] have six orders.
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::string log;
    Simulation s(sim::random(seed));
    for (char const letter : {'a', 'b'}) {
      s.runtime.call_host(s.first, [&log, letter] { log += letter; });
    }
    for (char const letter : {'A', 'B'}) {
      s.runtime.call_host(s.second, [&log, letter] { log += letter; });
    }
    s.runtime.synchronize_stream(s.first);
    s.runtime.synchronize_stream(s.second);
    orders.insert(log);
  }
  EXPECT_EQ(orders, (std::set<std::string>{"abAB", "aAbB", "aABb", "AabB", "AaBb", "ABab"}));
}

TEST(SimRandom, a_query_may_find_work_done_or_not) {
  std::set<bool> found;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Simulation s(sim::random(seed));
    s.runtime.call_host(s.first, [] {});
    s.runtime.record(s.e, s.first);
    found.insert(s.runtime.query(s.e));
  }
  EXPECT_EQ(found.size(), 2U);
}

TEST(SimRandom, polling_comes_to_an_end) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Simulation s(sim::random(seed));
    s.runtime.call_host(s.first, [] {});
    s.runtime.record(s.e, s.first);
    while (!s.runtime.query(s.e)) {
    }
  }
}

TEST(SimRandom, the_host_may_see_pinned_memory_before_or_after_a_copy) {
  std::set<int> seen;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Simulation s(sim::random(seed));
    auto* const pinned = static_cast<unsigned char*>(s.runtime.allocate_pinned(1));
    s.runtime.fill(pinned, 7, 1, s.first);
    s.runtime.host_uses({pinned, 1, AccessMode::read});
    seen.insert(*pinned);
    s.runtime.synchronize_stream(s.first);
    s.runtime.free_pinned(pinned, 1);
  }
  EXPECT_EQ(seen, (std::set<int>{0, 7}));
}

TEST(SimRandom, a_wait_orders) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::string log;
    Simulation s(sim::random(seed));
    s.runtime.call_host(s.first, [&] { log += '1'; });
    s.runtime.record(s.e, s.first);
    s.runtime.wait(s.second, s.e);
    s.runtime.call_host(s.second, [&] { log += '2'; });
    s.runtime.synchronize_stream(s.second);
    EXPECT_EQ(log, "12") << seed;
  }
}

TEST(SimFailures, are_of_what_comes_after_the_failed_work_whenever_one_asks) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Simulation s(sim::random(seed));
    bool ran = false;
    s.runtime.call_host(s.first, [] {});
    s.runtime.record(s.e, s.first);
    s.runtime.call_host(s.first, [] { throw std::range_error("the work"); });
    s.runtime.call_host(s.first, [&] {
      ran = true;
      throw std::logic_error("not the first");
    });
    EXPECT_THROW(s.runtime.synchronize_stream(s.first), std::range_error);
    EXPECT_TRUE(ran);
    EXPECT_TRUE(s.runtime.query(s.e)) << "this came before";
    s.runtime.record(s.e, s.first);
    EXPECT_THROW((void)s.runtime.query(s.e), std::range_error);
    EXPECT_THROW(s.runtime.synchronize(s.e), std::range_error) << "it stays";
    s.runtime.wait(s.second, s.e);
    EXPECT_THROW(s.runtime.synchronize_stream(s.second), std::range_error);
  }
}

TEST(SimDeadlock, says_who_is_blocked_by_what) {
  Simulation s(sim::random(1));
  auto const open = std::make_shared<std::atomic<bool>>(false);
  // The queue of `first` is [hold until the test lets go, record e]; that of `second` is [wait for
  // e, work].
  s.runtime.hold(s.first, open);
  s.runtime.record(s.e, s.first);
  s.runtime.wait(s.second, s.e);
  s.runtime.call_host(s.second, [] {});
  try {
    s.runtime.synchronize_stream(s.second);
    FAIL() << "did not throw";
  } catch (std::logic_error const& error) {
    EXPECT_STREQ(error.what(),
                 "simulation: the host waits for action 2 of stream 1, which cannot happen; stream "
                 "0 is held with 1 actions to come; stream 1 waits for action 1 of stream 0 with 2 "
                 "actions to come");
  }
  open->store(true);
  s.runtime.synchronize_stream(s.second);
}

TEST(SimDeadlock, work_that_waits_for_itself_is_refused) {
  Simulation s(sim::random(1));
  s.runtime.call_host(s.first, [&] { s.runtime.synchronize_stream(s.first); });
  EXPECT_THROW(s.runtime.synchronize_stream(s.first), std::logic_error);
}

TEST(SimThreads, a_second_thread_is_refused) {
  Simulation s(sim::random(1));
  std::thread([&] {
    EXPECT_THROW(s.runtime.call_host(s.first, [] {}), std::logic_error);
    EXPECT_THROW(s.runtime.synchronize_stream(s.first), std::logic_error);
    EXPECT_THROW((void)s.runtime.allocate_device(1), std::logic_error);
    EXPECT_THROW(s.runtime.record(s.e, s.first), std::logic_error);
  }).join();
}

TEST(SimMemory, is_zero_at_first_and_garbage_once_freed_under_work) {
  for (std::size_t const bytes : {std::size_t{64}, std::size_t{1} << 20U}) {
    Simulation s(sim::replay({1, 0, 0}));  // the first choice: the host frees before the work runs
    auto* const memory = static_cast<unsigned char*>(s.runtime.allocate_device(bytes));
    EXPECT_EQ(memory[bytes - 1], 0);
    int seen = 0;
    s.runtime.call_host(s.first, [&, memory] { seen = memory[bytes - 1]; });
    s.runtime.free_device(memory, bytes);
    s.runtime.synchronize_stream(s.first);
    EXPECT_EQ(seen, 0xDB);
  }
}

TEST(SimMemory, keeps_to_its_limit) {
  Sim runtime({.memory_bytes = 1000});
  void* const most = runtime.allocate_device(900);
  EXPECT_EQ(runtime.memory_info().free_bytes, 100U);
  EXPECT_THROW((void)runtime.allocate_device(101), OutOfMemory);
  runtime.free_device(most, 900);
  EXPECT_EQ(runtime.memory_info().free_bytes, 1000U);
}

TEST(SimEnd, runs_what_is_queued) {
  int ran = 0;
  {
    Simulation s(sim::random(3));
    for (int i = 0; i < 10; ++i) {
      s.runtime.call_host(i % 2 == 0 ? s.first : s.second, [&] { ++ran; });
    }
    s.runtime.destroy_stream(s.first);
  }
  EXPECT_EQ(ran, 10);
}

TEST(SimSchedules, are_read_as_they_are_written) {
  auto const choices = std::array<std::uint32_t, 3>{0, 12, 1};
  EXPECT_EQ(sim::written_replay(choices), "replay:0.12.1");
  EXPECT_EQ(sim::written_random(17), "random:17");
  for (auto const* good : {"random:17", "by_time:2", "replay:", "replay:0", "replay:0.12.1"}) {
    EXPECT_NO_THROW((void)sim::schedule_from(good)) << good;
  }
  for (auto const* bad : {"",
                          "17",
                          "random:",
                          "random:x",
                          "random:1x",
                          "replay:1.",
                          "replay:.1",
                          "replay:1..2",
                          "by_time:",
                          "replay:-1"}) {
    EXPECT_THROW((void)sim::schedule_from(bad), std::invalid_argument) << bad;
  }
}

TEST(SimSchedules, a_replay_of_another_program_is_refused) {
  Simulation s(sim::replay({2}));
  s.runtime.call_host(s.first, [] {});
  s.runtime.call_host(s.second, [] {});
  EXPECT_THROW(s.runtime.synchronize_stream(s.first), std::invalid_argument);
}

/// Runs a diamond of operations (one, two branches, and their sum) on two groups, with copies to
/// and from the device.
std::vector<float> diamond(sim::ScheduleFactory schedule) {
  Device<Sim> const device({.runtime = {.schedule = std::move(schedule)}});
  StreamPool<Sim> pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
  auto const x = to_device<float>(device, std::vector<float>{1, 2, 3, 4}, {4});
  Tensor<float, Sim> const left(device, {4});
  Tensor<float, Sim> const right(device, {4});
  Tensor<float, Sim> const sum(device, {4});
  {
    StreamScope<Sim> const scope(pool[0]);
    issue("left", reads(x), writes(left), [=](auto stream) {
      stream.run([=] {
        for (int i = 0; i < 4; ++i) {
          left.data()[i] = 10 * x.data()[i];
        }
      });
    });
  }
  {
    StreamScope<Sim> const scope(pool[1]);
    issue("right", reads(x), writes(right), [=](auto stream) {
      stream.run([=] {
        for (int i = 0; i < 4; ++i) {
          right.data()[i] = 100 * x.data()[i];
        }
      });
    });
  }
  issue("sum", reads(left, right), writes(sum), [=](auto stream) {
    stream.run([=] {
      for (int i = 0; i < 4; ++i) {
        sum.data()[i] = left.data()[i] + right.data()[i];
      }
    });
  });
  fill_bytes(left, 0);
  return to_host(sum);
}

TEST(SimDevice, programs_that_issue_operations_give_one_result_in_every_order) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(diamond(sim::random(seed)), (std::vector<float>{110, 220, 330, 440})) << seed;
  }
  EXPECT_EQ(diamond(sim::by_time()), (std::vector<float>{110, 220, 330, 440}));
}

}  // namespace
}  // namespace msstream::testing
